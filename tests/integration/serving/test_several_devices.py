"""A model with replicas on two devices: requests go where they wait least, whichever replica they come to."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from ray import serve
from ray.exceptions import RayError

from deployments.runtime.allocator_actor import allocators, find_socket
from deployments.runtime.settings import DeviceSettings
from deployments.runtime.turns import TurnTaker
from serve_app.app import model
from serve_app.sections import ModelConfig
from tests.integration.serving.conftest import Deploy
from tests.integration.serving.observe import slices, status, wait_until
from tests.models import random_input, whole_model_outputs

FIRST, SECOND = "cpu-14", "cpu-15"
NUM_IN_BURST = 50


@pytest.fixture(scope="module")
def both(cluster: int, repository: Path) -> Any:
    """``squeezenet`` on both devices."""
    config = ModelConfig.model_validate(
        {
            "model": "squeezenet",
            "repository": str(repository),
            "device": {"mode": "fifo"},
            "devices": [{"index": 14}, {"index": 15}],
        }
    )
    return serve.run(model(config), name="squeezenet-both", route_prefix="/v2/models/squeezenet-both")


@contextmanager
def held(index: int) -> Iterator[None]:
    """Whoever wants the device waits as long as this lasts, however fast the processor is."""
    device = DeviceSettings(index=index, mode="fifo")
    with TurnTaker("test", device, lambda: find_socket(device)) as taker, taker.turn():
        yield


@pytest.fixture
def busy(both: Any, deploy: Deploy) -> Iterator[None]:
    """Another model has more work for the first device than any test has for the second, as long as a test takes."""
    shufflenet = deploy("shufflenet", index=14, mode="fifo")
    inputs = random_input("shufflenet")
    with held(14):
        answers: list[Any] = []

        def all_wait() -> bool:
            return len(status(FIRST)["snapshot"]["waiting"]) == len(answers)

        while status(FIRST)["snapshot"]["waiting_s"] < 1.5:
            answers += [shufflenet.infer.remote(inputs) for _ in range(NUM_IN_BURST)]
            wait_until(all_wait, "all of them wait")
        yield
        for answer in answers:
            answer.cancel()
        wait_until(lambda: not status(FIRST)["snapshot"]["waiting"], "nobody waits any more")


def pids(device: str) -> list[int]:
    if not any(name.startswith(f"allocator-{device}-") for name in allocators()):
        return []  # it leaves when no replica has been there for a while
    return [replica["pid"] for replica in status(device)["replicas"] if replica["model"] == "squeezenet"]


def squeezenet_turns(device: str, since: int = 0) -> list[dict[str, Any]]:
    return [turn for turn in slices(device, since) if turn["model"] == "squeezenet"]


def test_each_device_has_a_replica_and_a_busy_one_is_avoided(both: Any, busy: None) -> None:
    assert (len(pids(FIRST)), len(pids(SECOND))) == (1, 1)
    inputs = random_input("squeezenet", seed=2)
    since = {device: status(device)["num_slices"] for device in (FIRST, SECOND)}
    answers = [both.infer.remote(inputs), both.infer_explained.remote(inputs)]
    outputs, (explained, explanation) = (answer.result() for answer in answers)
    expected = whole_model_outputs("squeezenet", inputs)
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array, strict=True)
        np.testing.assert_array_equal(explained[name], array, strict=True)
    assert explanation.ran_s > 0
    assert not squeezenet_turns(FIRST, since[FIRST])
    assert len({turn["request_id"] for turn in squeezenet_turns(SECOND, since[SECOND])}) == 2


def test_requests_that_were_handed_on_are_cancelled_where_they_wait(both: Any, busy: None) -> None:
    inputs = random_input("squeezenet")
    since = status(SECOND)["num_slices"]
    with held(15):
        answers = [both.infer.remote(inputs) for _ in range(60)]
        wait_until(lambda: len(status(SECOND)["snapshot"]["waiting"]) == len(answers), "all wait for the second device")
        for answer in answers:
            answer.cancel()
        wait_until(lambda: not status(SECOND)["snapshot"]["waiting"], "nobody waits any more")
    assert not squeezenet_turns(SECOND, since)


def test_the_statistics_of_a_model_count_its_requests_on_all_devices(both: Any, cluster: int) -> None:
    url = f"http://127.0.0.1:{cluster}/v2/models/squeezenet-both/stats"

    def num_answered() -> int:
        (entry,) = httpx.get(url).json()["model_stats"]
        return int(entry["inference_count"])

    before = num_answered()
    inputs = random_input("squeezenet")
    for answer in [both.infer.remote(inputs) for _ in range(2)]:
        answer.result()
    assert num_answered() == before + 2


def test_requests_are_answered_while_the_allocator_of_one_device_is_dead(both: Any) -> None:
    inputs = random_input("squeezenet", seed=3)
    expected = whole_model_outputs("squeezenet", inputs)
    dead = status(FIRST)["pid"]
    os.kill(dead, signal.SIGKILL)
    for answer in [both.infer.remote(inputs) for _ in range(4)]:
        outputs = answer.result(timeout_s=60)
        for name, array in expected.items():
            np.testing.assert_array_equal(outputs[name], array, strict=True)

    def is_back() -> bool:
        try:
            return bool(status(FIRST)["pid"] != dead and pids(FIRST))
        except RayError:
            return False

    wait_until(is_back, "the allocator is back, and the replica with it")


def test_a_replica_that_dies_is_replaced_on_its_own_device(both: Any) -> None:
    (old,) = pids(SECOND)
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: len(pids(SECOND)) == 1 and pids(SECOND) != [old], "there is a new replica", limit_s=90)
    assert len(pids(FIRST)) == 1
    assert both.infer.remote(random_input("squeezenet")).result(timeout_s=60)
