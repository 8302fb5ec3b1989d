"""The four Python clients against real models: same answers, same errors, and what they cancel leaves the device."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deployments.runtime.errors import DeadlineExceededError, InputRefusedError
from deployments.scheduling.errors import QueueFullError
from serve_app.client import AsyncHttpClient, HttpClient
from serve_app.client.errors import ServerUnreachableError
from serve_app.client.handles import AsyncHandleClient, HandleClient
from serve_app.protocol.errors import ParameterError, UnknownModelError
from serve_app.server import free_port
from tests.integration.serving.conftest import Deploy
from tests.integration.serving.observe import slices, status, wait_until
from tests.models import random_input, whole_model_outputs

Infer = Callable[..., Any]


def over_http(url: str) -> Infer:
    def infer(*arguments: Any, **options: Any) -> Any:
        with HttpClient(url) as client:
            return client.infer(*arguments, **options)

    return infer


def over_http_async(url: str) -> Infer:
    async def ask(*arguments: Any, **options: Any) -> Any:
        async with AsyncHttpClient(url) as client:
            return await client.infer(*arguments, **options)

    return lambda *arguments, **options: asyncio.run(ask(*arguments, **options))


def over_handles(_url: str) -> Infer:
    return HandleClient().infer


def over_handles_async(_url: str) -> Infer:
    async def ask(*arguments: Any, **options: Any) -> Any:
        return await AsyncHandleClient().infer(*arguments, **options)

    return lambda *arguments, **options: asyncio.run(ask(*arguments, **options))


@pytest.fixture(params=[over_http, over_http_async, over_handles, over_handles_async])
def infer(request: pytest.FixtureRequest, cluster: int) -> Infer:
    made: Infer = request.param(f"http://127.0.0.1:{cluster}")
    return made


def test_the_answer_is_bit_identical_to_plain_onnxruntime(deploy: Deploy, infer: Infer) -> None:
    deploy("squeezenet")
    inputs = random_input("squeezenet", seed=3)
    outputs = infer("squeezenet", inputs, priority=1, timeout_s=30.0, deadline_s=10.0)
    expected = whole_model_outputs("squeezenet", inputs)
    assert outputs.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array, strict=True)


def test_every_client_raises_the_same_errors(deploy: Deploy, infer: Infer) -> None:
    deploy("squeezenet")
    deploy("vgg19")
    good = random_input("squeezenet")
    for inputs in ({}, {"mask": good["data_0"]}, {"data_0": good["data_0"][:, 1:]}, {"data_0": np.ones(3)}):
        with pytest.raises(InputRefusedError):
            infer("squeezenet", inputs)
    with pytest.raises(UnknownModelError):
        infer("nothing", good)
    with pytest.raises(DeadlineExceededError, match=r"time-out of 0\.05 s"):
        infer("vgg19", random_input("vgg19"), timeout_s=0.05)
    for wrong in ({"priority": 0}, {"timeout_s": -1.0}, {"deadline_s": 0.0}):
        with pytest.raises(ParameterError, match="must be more than 0"):
            infer("squeezenet", good, **wrong)


def test_a_full_queue_is_told_with_its_numbers(deploy: Deploy, infer: Infer) -> None:
    handle = deploy("vgg19", index=3, max_waiting=1)
    inputs = random_input("vgg19")
    running = handle.infer.remote(inputs)
    wait_until(lambda: bool(status("cpu-3")["snapshot"]["holders"]), "the first request runs")
    waiting = handle.infer.remote(inputs)
    wait_until(lambda: len(status("cpu-3")["snapshot"]["waiting"]) == 1, "the second request waits")
    with pytest.raises(QueueFullError) as refused:
        infer("vgg19-3", inputs)
    assert (refused.value.num_waiting, refused.value.max_waiting) == (1, 1)
    for answer in (waiting, running):
        answer.cancel()
    wait_until(lambda: not status("cpu-3")["snapshot"]["holders"], "the device is free")


@pytest.mark.parametrize("kind", ["http", "handles"])
async def test_a_cancelled_task_leaves_the_queue_while_it_waits_and_the_device_while_it_runs(
    deploy: Deploy, cluster: int, kind: str
) -> None:
    deploy("vgg19")
    client = AsyncHttpClient(f"http://127.0.0.1:{cluster}") if kind == "http" else AsyncHandleClient()
    inputs = random_input("vgg19")
    since = status("cpu-0")["num_slices"]
    running = asyncio.create_task(client.infer("vgg19", inputs))
    await asyncio.to_thread(wait_until, lambda: bool(status("cpu-0")["snapshot"]["holders"]), "the first request runs")
    waiting = asyncio.create_task(client.infer("vgg19", inputs, priority=3, deadline_s=50.0))
    await asyncio.to_thread(
        wait_until, lambda: len(status("cpu-0")["snapshot"]["waiting"]) == 1, "the second request waits"
    )
    (seen,) = status("cpu-0")["snapshot"]["waiting"]
    assert seen["age_s"] + seen["time_to_deadline_s"] == pytest.approx(50.0)
    waiting.cancel()
    await asyncio.to_thread(wait_until, lambda: not status("cpu-0")["snapshot"]["waiting"], "the queue is empty")
    running.cancel()
    await asyncio.to_thread(wait_until, lambda: bool(slices("cpu-0", since)), "the turn is recorded")
    assert [turn["outcome"] for turn in slices("cpu-0", since)] == ["cancelled"]
    for task in (waiting, running):
        with pytest.raises(asyncio.CancelledError):
            await task
    if isinstance(client, AsyncHttpClient):
        await client.close()


def test_nobody_at_the_address_is_told() -> None:
    with (
        HttpClient(f"http://127.0.0.1:{free_port()}") as client,
        pytest.raises(ServerUnreachableError, match="running"),
    ):
        client.infer("squeezenet", random_input("squeezenet"))
