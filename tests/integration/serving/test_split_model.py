"""Models under the allocator, through Python handles: real Serve, real ONNX Runtime, real allocator actor."""

from __future__ import annotations

import itertools
import os
import random
import signal

import numpy as np
import pytest
import ray
from ray import serve
from ray.exceptions import RayError

from deployments.runtime.allocator_actor import allocators
from deployments.runtime.errors import DeadlineExceededError, InputRefusedError
from tests.integration.serving.conftest import Deploy
from tests.integration.serving.observe import slices, status, wait_until
from tests.models import random_input, whole_model_outputs


def is_running(device: str, model: str) -> bool:
    return any(holder["model"] == model for holder in status(device)["snapshot"]["holders"])


def test_the_answer_is_bit_identical_to_plain_onnxruntime(deploy: Deploy) -> None:
    deploy("squeezenet")
    inputs = random_input("squeezenet", seed=1)
    outputs = serve.get_app_handle("squeezenet").infer.remote(inputs).result()
    expected = whole_model_outputs("squeezenet", inputs)
    assert outputs.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array, strict=True)


def test_wrong_inputs_are_refused_by_name_before_they_reach_the_device(deploy: Deploy) -> None:
    handle = deploy("squeezenet")
    num_slices = status("cpu-0")["num_slices"]
    good = random_input("squeezenet")["data_0"]
    for inputs, message in [
        ({}, "missing input 'data_0'"),
        ({"data_0": good, "mask": good}, "no input 'mask'; it takes 'data_0'"),
        ({"data_0": good.astype(np.float64)}, "has dtype float64, the model takes float32"),
        ({"data_0": good[:, :, 1:]}, r"has shape \[1, 3, 223, 224\], the model takes \[1, 3, 224, 224\]"),
    ]:
        with pytest.raises(InputRefusedError, match=message):
            handle.infer.remote(inputs).result()
    assert status("cpu-0")["num_slices"] == num_slices


def test_a_short_request_starts_within_one_block_of_the_long_one_that_runs(deploy: Deploy) -> None:
    long, short = deploy("vgg19"), deploy("squeezenet")
    long_inputs, short_inputs = random_input("vgg19"), random_input("squeezenet")
    since = status("cpu-0")["num_slices"]
    long_answer = long.infer.remote(long_inputs)
    wait_until(lambda: is_running("cpu-0", "vgg19"), "vgg19 runs")
    short.infer.remote(short_inputs).result()
    assert slices("cpu-0", since)[-1]["model"] != "vgg19"
    long_answer.result()
    wait_until(lambda: len(slices("cpu-0", since)) >= 3, "three turns are recorded")
    turns = slices("cpu-0", since)
    assert [turn["model"] for turn in turns] == ["vgg19", "squeezenet", "vgg19"]
    assert [turn["outcome"] for turn in turns] == ["yielded", "finished", "finished"]
    assert turns[2]["first_block"] == len(turns[0]["block_ends_s"])
    # the request was there before the first turn's last block began, or arrived while it ran
    assert turns[1]["start_s"] - turns[0]["end_s"] < turns[0]["block_ends_s"][0] - turns[0]["start_s"]


def overlaps(turns: list[dict[str, object]]) -> int:
    by_start = sorted((turn["start_s"], turn["end_s"]) for turn in turns)
    return sum(first[1] > second[0] for first, second in itertools.pairwise(by_start))  # type: ignore[operator]


def run_mixed(deploy: Deploy, num_requests: int, *, num_long: int, **device: object) -> list[dict[str, object]]:
    """A seeded mix of requests, 40 at a time; returns their turns."""
    handles = {name: deploy(name, **device) for name in ("squeezenet", "shufflenet", "vgg19")}
    inputs = {name: ray.put(random_input(name)) for name in handles}
    names = ["vgg19"] * num_long + ["squeezenet", "shufflenet"] * ((num_requests - num_long) // 2)
    random.Random(7).shuffle(names)
    name_of_device = f"cpu-{device.get('index', 0)}"
    since = status(name_of_device)["num_slices"]
    in_flight = []
    for name in names:
        in_flight.append(handles[name].infer.remote(inputs[name]))
        if len(in_flight) == 40:
            in_flight.pop(0).result()
    for answer in in_flight:
        answer.result()

    def finished() -> int:
        return sum(turn["outcome"] == "finished" for turn in slices(name_of_device, since))

    wait_until(lambda: finished() == len(names), "every request's turn is recorded")
    return slices(name_of_device, since)


def test_no_two_turns_of_a_device_overlap_in_a_thousand_mixed_requests(deploy: Deploy) -> None:
    turns = run_mixed(deploy, 1000, num_long=6)
    assert len({turn["request_id"] for turn in turns}) == 1000
    assert overlaps(turns) == 0


def test_turns_overlap_in_mode_parallel(deploy: Deploy) -> None:
    assert overlaps(run_mixed(deploy, 62, num_long=2, mode="parallel", index=1)) > 0


def test_a_time_out_gives_the_request_up_and_frees_the_device(deploy: Deploy) -> None:
    handle = deploy("vgg19")
    inputs = random_input("vgg19")
    since = status("cpu-0")["num_slices"]
    with pytest.raises(DeadlineExceededError, match=r"time-out of 0\.05 s"):
        handle.infer.remote(inputs, timeout_s=0.05).result()
    wait_until(lambda: bool(slices("cpu-0", since)), "the turn is recorded")
    assert slices("cpu-0", since)[-1]["outcome"] == "cancelled"
    assert handle.infer.remote(inputs).result()


def test_a_cancelled_request_leaves_the_queue_while_it_waits_and_the_device_while_it_runs(deploy: Deploy) -> None:
    handle = deploy("vgg19")
    inputs = random_input("vgg19")
    since = status("cpu-0")["num_slices"]
    running = handle.infer.remote(inputs)
    wait_until(lambda: is_running("cpu-0", "vgg19"), "vgg19 runs")
    waiting = handle.infer.remote(inputs)
    wait_until(lambda: len(status("cpu-0")["snapshot"]["waiting"]) == 1, "the second request waits")
    waiting.cancel()
    wait_until(lambda: not status("cpu-0")["snapshot"]["waiting"], "the queue is empty")
    running.cancel()
    wait_until(lambda: bool(slices("cpu-0", since)), "the turn is recorded")
    assert [turn["outcome"] for turn in slices("cpu-0", since)] == ["cancelled"]


def test_killing_the_holders_replica_frees_the_device_and_serve_replaces_it(deploy: Deploy) -> None:
    long, short = deploy("vgg19"), deploy("squeezenet")
    long_inputs, short_inputs = random_input("vgg19"), random_input("squeezenet")
    victim = replica_pid("vgg19")
    doomed = long.infer.remote(long_inputs)
    wait_until(lambda: is_running("cpu-0", "vgg19"), "vgg19 runs")
    os.kill(victim, signal.SIGKILL)
    assert short.infer.remote(short_inputs).result(timeout_s=10)
    with pytest.raises(RayError):
        doomed.result(timeout_s=30)

    def answers_again() -> bool:
        try:
            return bool(long.infer.remote(long_inputs).result(timeout_s=60))
        except RayError:
            return False

    wait_until(answers_again, "vgg19 answers again", limit_s=90)
    assert replica_pid("vgg19") != victim


def replica_pid(model: str) -> int:
    """Process of the model's one replica on device cpu-0."""
    (pid,) = [replica["pid"] for replica in status("cpu-0")["replicas"] if replica["model"] == model]
    return int(pid)


def test_requests_survive_the_death_of_the_allocator(deploy: Deploy) -> None:
    handles = {name: deploy(name) for name in ("squeezenet", "vgg19")}
    inputs = {name: random_input(name) for name in handles}
    old_pid = status("cpu-0")["pid"]
    answers = [handles[name].infer.remote(inputs[name]) for name in ["vgg19"] + ["squeezenet"] * 10 + ["vgg19"]]
    wait_until(lambda: is_running("cpu-0", "vgg19"), "vgg19 runs")
    os.kill(old_pid, signal.SIGKILL)
    for answer in answers:
        assert answer.result(timeout_s=60)
    assert handles["squeezenet"].infer.remote(inputs["squeezenet"]).result(timeout_s=60)
    assert status("cpu-0")["pid"] != old_pid


def test_models_that_disagree_on_their_device_do_not_start(deploy: Deploy) -> None:
    deploy("squeezenet", index=6, mode="slo")
    with pytest.raises(RuntimeError, match="Deploying application shufflenet-6 failed"):
        deploy("shufflenet", index=6, mode="fifo")
    application = serve.status().applications["shufflenet-6"]
    assert "mode: 'fifo' here, 'slo' there" in str(application.deployments["SplitModel"].message)


def test_there_is_one_allocator_a_device_and_none_when_nobody_needs_it(deploy: Deploy) -> None:
    deploy("squeezenet", index=5)
    deploy("shufflenet", index=5)
    assert len([name for name in allocators() if name.startswith("allocator-cpu-5-")]) == 1
    assert sorted(replica["model"] for replica in status("cpu-5")["replicas"]) == ["shufflenet", "squeezenet"]
    serve.delete("squeezenet-5")
    serve.delete("shufflenet-5")
    wait_until(
        lambda: not [name for name in allocators() if name.startswith("allocator-cpu-5-")], "the allocator is gone"
    )
