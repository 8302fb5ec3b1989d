"""A request that runs in several stays (chained layout) competes in each like one that runs all its blocks in one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.errors import InvalidRequestError, ProgressError, QueueFullError
from deployments.scheduling.explanation import explain, joined
from deployments.scheduling.policies.table import POLICIES, make_policy
from deployments.scheduling.request import Request
from deployments.simulation.simulator import simulate

from .builders import allocator, request
from .checks import workloads

LONG = request("long", 1.0, 2.0, 4.0)


def part(whole: Request, first_block: int, end_block: int, **changes: object) -> Request:
    return replace(whole, first_block=first_block, end_block=end_block, **changes)  # type: ignore[arg-type]


@given(
    times=st.lists(st.integers(0, 64).map(lambda n: n / 16), min_size=1, max_size=8),
    data=st.data(),
    elsewhere_s=st.sampled_from([0.0, 0.5]),
)
def test_what_is_left_is_the_same_at_every_boundary(
    times: list[float], data: st.DataObject, elsewhere_s: float
) -> None:
    whole = request("r", *times, isolated_s=1.0)
    ends = sorted({*data.draw(st.sets(st.integers(1, len(times)))), len(times)})
    fused = Candidate(whole, 0)
    for first, end in zip([0, *ends[:-1]], ends, strict=True):
        fused.stop_at(first)
        stay = Candidate(part(whole, first, end, elsewhere_s=elsewhere_s), 0, blocks_done=first)
        assert stay.remaining_s == fused.remaining_s
        assert stay.deadline_s == fused.deadline_s - elsewhere_s
        for block in range(first, end):
            fused.run_from(block, 0.0)
            stay.run_from(block, 0.0)
            assert (stay.remaining_s, stay.running_block_s) == (fused.remaining_s, fused.running_block_s)
            assert stay.is_in_last_block is (block == end - 1)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@given(others=workloads(), arrival_s=st.integers(0, 8).map(float), now_s=st.integers(8, 16).map(float))
def test_every_policy_chooses_as_if_it_had_come_to_the_boundary_in_one_stay(
    policy: str, others: list[Request], arrival_s: float, now_s: float
) -> None:
    whole = replace(LONG, arrival_s=arrival_s, deadline_s=arrival_s + 20.0)
    chosen = []
    for mine, sequence in ((whole, 0), (part(whole, 1, 2), 0)):
        candidate = Candidate(mine, sequence, blocks_done=1)
        judge = make_policy(policy, {})
        for index, other in enumerate(others, start=1):
            judge.add(Candidate(other, index))
        judge.add(candidate)
        first = judge.choose(now_s, None)
        assert first is not None
        chosen.append(first.request.request_id)
    assert chosen[0] == chosen[1]


def test_a_stay_ends_with_finish_before_the_last_block_and_the_next_one_competes_with_what_is_left() -> None:
    device = allocator("srpt")
    device.submit(part(LONG, 0, 1), 0.0)
    device.submit(request("middle", 5.0), 0.5)
    (granted,) = device.finish(LONG.request_id, 1.0).grants
    assert granted.request_id == "middle"
    device.submit(part(LONG, 1, 3), 1.0)
    device.submit(request("short", 5.5), 1.0)
    (granted,) = device.finish(granted.request_id, 6.0).grants
    assert granted.request_id == "short"  # 5.5 s are less than the 6 s that are left, though the next block has 2 s


def test_a_request_that_goes_on_is_let_in_though_the_queue_is_full() -> None:
    device = DeviceAllocator(policy=make_policy("fifo", {}), max_waiting=1)
    device.submit(request("a"), 0.0)
    device.submit(request("b"), 0.0)
    with pytest.raises(QueueFullError):
        device.submit(part(LONG, 0, 1), 0.0)
    device.submit(part(LONG, 1, 3), 0.0)
    assert device.num_waiting == 2


def test_a_stay_that_no_block_is_in_is_refused() -> None:
    for first, end in ((0, 0), (2, 1), (0, 4), (3, 3), (-1, 2)):
        with pytest.raises(InvalidRequestError, match=r"blocks .* of 3"):
            part(LONG, first, end)


def test_progress_beyond_the_end_of_the_stay_is_refused() -> None:
    device = allocator()
    device.submit(part(LONG, 1, 2), 0.0)
    for blocks_done in (0, 2):
        with pytest.raises(ProgressError):
            device.yield_at_boundary(LONG.request_id, blocks_done=blocks_done, now_s=1.0)
    with pytest.raises(ProgressError):
        device.progress(LONG.request_id, 3, 1.0, 1.0)


def test_explanations_of_stays_join_to_that_of_the_whole_request() -> None:
    short = request("short", 0.5, arrival_s=0.25)
    run = simulate([LONG, short], allocator("srpt"), record_slices=True)
    whole = explain(run.slices, LONG)
    first = explain(run.slices, part(LONG, 0, 1))
    rest = explain(run.slices, part(LONG, 1, 3, arrival_s=first.total_s))
    assert joined([first, rest]) == replace(whole, preemptions=())  # between two stays nobody was preempted
