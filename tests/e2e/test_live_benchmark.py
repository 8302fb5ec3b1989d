"""The live benchmark's ways to a server that runs, and what it reads off it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.load.client import open_session
from benchmarks.load.inputs import prepare_arrays
from benchmarks.load.loops import run_open_loop
from benchmarks.serve.competitors import Launch, peer_spec
from benchmarks.serve.observe import DeviceWindow
from benchmarks.serve.reference import largest_difference, measure_references
from benchmarks.serve.senders import Via, open_sender
from benchmarks.serve.subject import Subject, load_subject
from benchmarks.serve.turns import block_times_s
from deployments.simulation.workload import Arrival
from tests.e2e.conftest import Addresses

MODEL = "shufflenet"


@pytest.fixture(scope="module")
def subject(config_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return load_subject(config_path, tmp_path_factory.mktemp("bench"), models=[MODEL])


@pytest.mark.parametrize("via", ["http", "grpc"])
async def test_answers_are_those_of_plain_onnx_runtime_and_turns_are_seen(
    via: Via, server: Addresses, subject: Subject
) -> None:
    inputs = prepare_arrays(subject.metadata, seed=0)
    wanted = measure_references(peer_spec(subject), inputs)[MODEL].outputs
    launch = Launch(command=(), environment={}, url=server.url, grpc=server.grpc)
    async with open_session(timeout_s=30) as session, open_sender(via, launch, inputs) as sender:
        window = DeviceWindow(session, server.url, subject.device.device)
        before = await window.state()
        assert largest_difference(wanted, await sender.outputs(MODEL), who=via) < 1e-3
        outcomes = await run_open_loop(sender, [Arrival(arrival_s=0.0, model=MODEL)] * 3)
        assert [outcome.failure for outcome in outcomes] == [None] * 3
        after = await window.state()
        slices = await window.slices(before.num_slices)
    assert after.allocator_s >= before.allocator_s
    assert {turn.model for turn in slices} == {MODEL}
    assert len({turn.request_id for turn in slices}) == 4
    times_s = block_times_s(slices, MODEL)
    assert times_s is not None
    assert len(times_s) == len(subject.plans[MODEL].blocks)


def test_a_chosen_model_is_all_that_the_copy_of_the_configuration_serves(subject: Subject) -> None:
    assert list(subject.plans) == [MODEL]
    again = load_subject(subject.config, subject.config.parent, is_pinned=False)
    assert list(again.plans) == [MODEL]
    assert (subject.is_pinned, again.is_pinned) == (True, False)
