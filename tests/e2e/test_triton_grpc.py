"""An unmodified tritonclient over gRPC, in its own environment."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from serve_app.protocol import inference_pb2
from tests.e2e.conftest import Addresses
from tests.e2e.test_triton_client import triton_python
from tests.http_request import binary_request
from tests.integration.serving.observe import wait_until
from tests.models import random_input, whole_model_outputs

SCRIPT = Path(__file__).parent / "triton_grpc_script.py"


def run_script(*arguments: object) -> Any:
    done = subprocess.run([triton_python(), SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def vgg19_input(tmp_path: Path) -> Path:
    ((_, array),) = random_input("vgg19").items()
    np.save(tmp_path / "vgg19.npy", array)
    return tmp_path / "vgg19.npy"


def slices(url: str, since: int) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = httpx.get(f"{url}/v2/devices/cpu-0/slices", params={"since": since}).json()
    return turns


def num_slices(url: str) -> int:
    (status,) = httpx.get(f"{url}/v2/devices").json().values()
    return int(status["num_slices"])


def test_every_field_has_the_number_and_type_that_tritonclient_has() -> None:
    theirs = run_script("--fields")
    messages = list(inference_pb2.DESCRIPTOR.message_types_by_name.values())
    while messages:
        message = messages.pop()
        messages += message.nested_types
        if message.name == "ModelInferAddress":
            continue
        for field in message.fields:
            assert theirs[message.full_name][field.name] == [field.number, field.type], field.full_name


def test_tritonclient_gets_everything_that_it_asks_for(server: Addresses, tmp_path: Path) -> None:
    inputs = random_input("squeezenet", seed=5)
    ((input_name, array),) = inputs.items()
    ((output_name, expected),) = whole_model_outputs("squeezenet", inputs).items()
    np.save(tmp_path / "input.npy", array)
    told = run_script(server.grpc, "squeezenet", tmp_path / "input.npy", tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "grpc.npy"), expected, strict=True)
    assert told["id"] == "mine"
    assert told["live"]
    assert told["ready"]
    assert told["model_ready"]
    assert not told["unknown_model_ready"]
    assert told["server"]["name"] == "dlir-serve"
    shape = [str(length) for length in array.shape]
    assert told["model"]["inputs"] == [{"name": input_name, "datatype": "FP32", "shape": shape}]
    assert [output["name"] for output in told["model"]["outputs"]] == [output_name]
    assert told["config"]["input"] == [{"name": input_name, "data_type": "TYPE_FP32", "dims": shape}]
    assert {entry["name"]: entry["state"] for entry in told["index"]}["squeezenet"] == "READY"
    (statistics,) = told["statistics"]
    assert (statistics["name"], statistics["version"]) == ("squeezenet", "1")
    assert int(statistics["inference_count"]) >= 1
    assert int(statistics["inference_stats"]["compute_infer"]["ns"]) > 0
    assert [each["name"] for each in told["all_statistics"]] == ["shufflenet", "squeezenet", "vgg19"]
    assert told["wrong_tensor"]["status"] == "StatusCode.INVALID_ARGUMENT"
    assert input_name in told["wrong_tensor"]["message"]
    assert told["unknown_model"]["status"] == "StatusCode.NOT_FOUND"
    assert "served here: shufflenet, squeezenet, vgg19" in told["unknown_model"]["message"]


def test_a_deadline_that_passes_while_the_request_runs_frees_the_device(server: Addresses, vgg19_input: Path) -> None:
    since = num_slices(server.url)
    told = run_script(server.grpc, "vgg19", vgg19_input, "--client-timeout", 0.2)
    assert told["status"] == "StatusCode.DEADLINE_EXCEEDED"
    wait_until(lambda: bool(slices(server.url, since)), "the turn is recorded")
    assert [turn["outcome"] for turn in slices(server.url, since)] == ["cancelled"]


def test_a_deadline_that_passes_while_the_request_waits_keeps_it_off_the_device(
    server: Addresses, vgg19_input: Path
) -> None:
    since = num_slices(server.url)
    body = binary_request(random_input("vgg19"))
    statuses: list[int] = []

    def infer() -> None:
        answer = httpx.post(f"{server.url}/v2/models/vgg19/infer", **body, timeout=60)
        statuses.append(answer.status_code)

    threads = [threading.Thread(target=infer) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: bool(num_waiting(server.url) >= 5), "the device is busy for a while")
    told = run_script(server.grpc, "vgg19", vgg19_input, "--client-timeout", 0.2)
    for thread in threads:
        thread.join()
    assert told["status"] == "StatusCode.DEADLINE_EXCEEDED"
    assert statuses == [200] * len(threads)
    wait_until(lambda: num_finished(server.url, since) == len(threads), "the turns are recorded")
    assert len({turn["request_id"] for turn in slices(server.url, since)}) == len(threads)
    assert num_waiting(server.url) == 0


def num_waiting(url: str) -> int:
    (status,) = httpx.get(f"{url}/v2/devices").json().values()
    return len(status["snapshot"]["waiting"])


def num_finished(url: str, since: int) -> int:
    return sum(turn["outcome"] == "finished" for turn in slices(url, since))
