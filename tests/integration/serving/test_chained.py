"""A model whose blocks live in several deployments: real Serve, real allocators, beside the fused layout."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from ray import serve

from deployments.runtime.allocator_actor import find_socket
from deployments.runtime.errors import DeadlineExceededError, InputRefusedError, LayoutRefusedError, ReplicaClosedError
from deployments.runtime.settings import DeviceSettings
from deployments.runtime.turns import TurnTaker
from serve_app.app import model
from serve_app.sections import ModelConfig
from split_tool.plan import SplitPlan
from tests.http_request import binary_request, read_answer
from tests.integration.serving.observe import slices, status, wait_until
from tests.models import random_input, whole_model_outputs

DEVICE, OTHER = "cpu-20", "cpu-21"
ENDS = (2, 3)  # of the first two groups of vgg19's blocks; the third has the rest, however many there are
URL = "http://127.0.0.1:{}/vgg19-chained"


@pytest.fixture(scope="module")
def vgg19(cluster: int, repository: Path) -> Any:
    """vgg19 in three groups; the last one is on a device of its own."""
    groups = [{"blocks": 2}, {"blocks": 1}, {"device": {"index": 21}}]
    config = ModelConfig(
        model="vgg19",
        repository=str(repository),
        device={"index": 20},
        layout="chained",
        chained={"groups": groups},
    )
    yield serve.run(model(config), name="vgg19-chained", route_prefix="/vgg19-chained")
    serve.delete("vgg19-chained")


@pytest.fixture(scope="module")
def num_blocks(repository: Path) -> int:
    return len(SplitPlan.load(repository / "vgg19").blocks)


def turns_since(marks: dict[str, int]) -> list[dict[str, Any]]:
    return [turn for device, mark in marks.items() for turn in slices(device, mark)]


def marks() -> dict[str, int]:
    return {device: status(device)["num_slices"] for device in (DEVICE, OTHER)}


def waiting(device: str) -> list[dict[str, Any]]:
    views: list[dict[str, Any]] = status(device)["snapshot"]["waiting"]
    return views


@contextmanager
def held(device: str) -> Iterator[None]:
    """The device is somebody else's, for one turn."""
    settings = DeviceSettings(index=int(device.removeprefix("cpu-")))
    with TurnTaker("test", settings, lambda: find_socket(settings), priority=1) as taker, taker.turn():
        yield


def is_running(device: str, block: int) -> bool:
    """Whether a request runs there that has come to the block, or beyond."""
    return any(holder["blocks_done"] >= block for holder in status(device)["snapshot"]["holders"])


def test_the_answer_is_bit_identical_and_the_log_shows_one_request_in_all_groups(
    vgg19: Any, cluster: int, num_blocks: int
) -> None:
    inputs = random_input("vgg19", seed=2)
    before = marks()
    answer = httpx.post(URL.format(cluster) + "/infer", timeout=60, **binary_request(inputs))
    assert answer.status_code == 200, answer.text
    outputs = dict(read_answer(answer.content, int(answer.headers["Inference-Header-Content-Length"])))
    expected = whole_model_outputs("vgg19", inputs)
    assert outputs.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array, strict=True)
    wait_until(lambda: len(turns_since(before)) == 3, "three turns are recorded")
    turns = turns_since(before)
    assert len({turn["request_id"] for turn in turns}) == 1
    assert {turn["model"] for turn in turns} == {"vgg19"}
    assert [turn["first_block"] for turn in turns] == [0, *ENDS]
    assert [turn["first_block"] + len(turn["block_ends_s"]) for turn in turns] == [*ENDS, num_blocks]
    assert all(first["end_s"] <= second["start_s"] for first, second in pairwise(turns))


def test_an_explanation_and_the_statistics_count_all_groups_as_one_request(vgg19: Any, num_blocks: int) -> None:
    before = vgg19.statistics.remote().result()
    outputs, explanation = vgg19.infer_explained.remote(random_input("vgg19")).result()
    assert outputs
    assert len(explanation.block_s) == num_blocks
    assert len(explanation.reasons) == 3
    assert explanation.ran_s + explanation.waited_s == pytest.approx(explanation.total_s)
    after = vgg19.statistics.remote().result()
    assert after.inference_count == before.inference_count + 1
    ran_s = sum(
        (getattr(after.inference_stats, part).ns - getattr(before.inference_stats, part).ns) / 1e9
        for part in ("compute_input", "compute_infer")
    )
    assert ran_s == pytest.approx(sum(explanation.block_s), rel=0.05)


def test_the_policy_sees_what_is_left_of_the_whole_chain_on_its_device(vgg19: Any) -> None:
    times_s = vgg19.block_times_s.remote().result()
    with held(DEVICE):
        request = vgg19.infer.remote(random_input("vgg19"))
        wait_until(lambda: bool(waiting(DEVICE)), "the request waits")
        (view,) = waiting(DEVICE)
    assert view["blocks_done"] == 0
    assert view["remaining_s"] == pytest.approx(sum(times_s[: ENDS[1]]))
    assert request.result()


def test_wrong_inputs_are_refused_before_anything_runs(vgg19: Any) -> None:
    before = marks()
    with pytest.raises(InputRefusedError, match="missing input"):
        vgg19.infer.remote({}).result()
    assert turns_since(before) == []


def test_a_time_out_that_passes_in_a_later_group_is_the_right_error_and_empties_its_queue(vgg19: Any) -> None:
    with held(OTHER):
        request = vgg19.infer.remote(random_input("vgg19"), timeout_s=2.5)
        wait_until(lambda: bool(waiting(OTHER)), "the request waits for the last group's device")
        (view,) = waiting(OTHER)
        assert view["blocks_done"] == ENDS[1]
        with pytest.raises(DeadlineExceededError, match=r"time-out of 2\.5 s"):
            request.result()
        wait_until(lambda: not waiting(OTHER), "the queue is empty")


def test_cancelling_while_a_later_group_runs_frees_its_device(vgg19: Any) -> None:
    before = marks()
    request = vgg19.infer.remote(random_input("vgg19"))
    wait_until(lambda: is_running(OTHER, ENDS[1]), "the last group runs")
    request.cancel()
    wait_until(lambda: bool(slices(OTHER, before[OTHER])), "the turn is recorded")
    (turn,) = slices(OTHER, before[OTHER])
    assert turn["outcome"] == "cancelled"
    assert not status(OTHER)["snapshot"]["holders"]


def test_a_killed_replica_of_a_later_group_is_one_clear_error_and_is_replaced(vgg19: Any) -> None:
    request = vgg19.infer.remote(random_input("vgg19"))
    wait_until(lambda: is_running(OTHER, ENDS[1]), "the last group runs")
    (replica,) = status(OTHER)["replicas"]
    os.kill(replica["pid"], signal.SIGKILL)
    with pytest.raises(ReplicaClosedError, match="later blocks of 'vgg19' died while the request was on its way"):
        request.result(timeout_s=30)

    def answers_again() -> bool:
        try:
            return bool(vgg19.infer.remote(random_input("vgg19")).result(timeout_s=60))
        except ReplicaClosedError:
            return False

    wait_until(answers_again, "vgg19 answers again", limit_s=60)


def test_a_model_that_cannot_be_chained_does_not_even_start(repository: Path) -> None:
    config = ModelConfig(
        model="squeezenet", repository=str(repository), layout="chained", chained={"groups": [{"blocks": 99}]}
    )
    with pytest.raises(LayoutRefusedError, match=r"end before blocks 99, its plan has \d+ blocks"):
        model(config)
