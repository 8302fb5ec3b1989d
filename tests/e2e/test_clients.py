"""The Python client over HTTP, through the proxy of a real server."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from typing import Any

import httpx
import numpy as np
import pytest

from serve_app.client import AsyncHttpClient, HttpClient
from serve_app.protocol.errors import UnknownModelError
from tests.integration.serving.observe import wait_until
from tests.models import ROOT, random_input, whole_model_outputs


def device(url: str) -> dict[str, Any]:
    """What the server's one device does now."""
    (status,) = httpx.get(f"{url}/v2/devices").json().values()
    return dict(status)


def outcomes(url: str, since: int) -> list[str]:
    """How the turns after the first ``since`` ended."""
    return [turn["outcome"] for turn in httpx.get(f"{url}/v2/devices/cpu-0/slices", params={"since": since}).json()]


def test_outputs_are_those_of_plain_onnxruntime_and_an_unknown_model_is_told(url: str) -> None:
    inputs = random_input("squeezenet", seed=6)
    with HttpClient(url) as client:
        outputs = client.infer("squeezenet", inputs)
        with pytest.raises(UnknownModelError, match="there is no model 'nope'"):
            client.infer("nope", inputs)
    ((name, expected),) = whole_model_outputs("squeezenet", inputs).items()
    np.testing.assert_array_equal(outputs[name], expected, strict=True)


async def test_a_closed_connection_leaves_the_queue_while_it_waits_and_the_device_while_it_runs(url: str) -> None:
    inputs = random_input("vgg19")
    since = device(url)["num_slices"]
    async with AsyncHttpClient(url) as client:
        running = asyncio.create_task(client.infer("vgg19", inputs))
        await asyncio.to_thread(wait_until, lambda: bool(device(url)["snapshot"]["holders"]), "the first one runs")
        waiting = asyncio.create_task(client.infer("vgg19", inputs))
        await asyncio.to_thread(wait_until, lambda: bool(device(url)["snapshot"]["waiting"]), "the second one waits")
        waiting.cancel()
        await asyncio.to_thread(wait_until, lambda: not device(url)["snapshot"]["waiting"], "the queue is empty")
        running.cancel()
        await asyncio.to_thread(wait_until, lambda: bool(outcomes(url, since)), "the turn is recorded")
        assert outcomes(url, since) == ["cancelled"]
        for task in (waiting, running):
            with pytest.raises(asyncio.CancelledError):
                await task


def test_the_snippets_of_the_documentation_print_what_it_says(url: str) -> None:
    text = (ROOT / "docs" / "clients.md").read_text()
    blocks = re.findall(r"```python\n([^`]*)```\n\n```text\n([^`]*)```", text)
    assert len(blocks) == 2
    for code, printed in blocks:
        command = [sys.executable, "-c", code.replace("http://127.0.0.1:8000", url)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.stdout == printed, done.stderr
