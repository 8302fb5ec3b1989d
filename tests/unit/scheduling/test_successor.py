"""Whoever is told before the core is asked is whoever the core would have chosen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.scheduling.decision import Decision
from deployments.scheduling.errors import ProgressError, UnknownRequestError
from deployments.scheduling.request import Request

from .builders import allocator, request
from .checks import workloads

LONG = request("long", 1.0, 1.0, 1.0)
SHORT = request("short", 0.5, arrival_s=0.25)
OTHER = request("other", 2.0, arrival_s=0.5)


def test_nobody_follows_where_nobody_waits() -> None:
    device = allocator("srpt")
    assert device.successor(0.0) is None
    device.submit(LONG, 0.0)
    assert device.successor(0.0) is None


def test_the_best_of_those_that_wait_follows_and_another_after_each_event() -> None:
    device = allocator("srpt")
    device.submit(LONG, 0.0)
    device.submit(OTHER, 0.5)
    assert device.successor(0.5) == OTHER
    device.submit(SHORT, 0.5)
    assert device.successor(0.5) == SHORT
    device.cancel(SHORT.request_id, 0.6)
    assert device.successor(0.6) == OTHER


def test_a_successor_that_was_told_is_granted_even_where_another_would_be_better_by_then() -> None:
    device = allocator("edf")
    device.submit(LONG, 0.0)
    device.submit(OTHER, 0.5)
    device.submit(SHORT, 0.5)
    decision = device.finish(LONG.request_id, 3.0, successor=OTHER.request_id)
    assert decision.grants == (OTHER,)
    assert device.holder == OTHER
    assert device.waiting == (SHORT,)


def test_a_holder_that_yields_to_its_successor_waits_again() -> None:
    device = allocator("srpt")
    device.submit(LONG, 0.0)
    assert device.submit(SHORT, 0.25).revoke == "long"
    assert device.successor(0.25) == SHORT
    decision = device.yield_at_boundary(LONG.request_id, blocks_done=1, now_s=1.0, successor=SHORT.request_id)
    assert decision.grants == (SHORT,)
    assert device.waiting == (LONG,)


def test_a_waiting_request_that_has_run_some_blocks_waits_on_with_the_rest() -> None:
    device = allocator("srpt")
    device.submit(OTHER, 0.0)
    device.submit(LONG, 0.25)
    assert device.is_waiting(LONG.request_id)
    assert device.restate(LONG.request_id, blocks_done=2, now_s=1.0) == Decision()
    assert device.blocks_done(LONG.request_id) == 2
    with pytest.raises(ProgressError):
        device.restate(LONG.request_id, blocks_done=3, now_s=1.0)
    with pytest.raises(UnknownRequestError):
        device.restate(OTHER.request_id, blocks_done=0, now_s=1.0)
    assert device.finish(OTHER.request_id, 2.0).grants == (LONG,)
    assert not device.is_waiting(LONG.request_id)


def test_with_admission_control_nobody_is_told_in_advance_since_he_may_be_refused() -> None:
    device = allocator("slo", admission="anyone_waiting")
    device.submit(LONG, 0.0)
    device.submit(SHORT, 0.25)
    assert device.successor(0.25) is None


@given(requests=workloads(), policy=st.sampled_from(["fifo", "sjf", "srpt", "edf"]))
def test_where_the_order_does_not_change_with_time_the_successor_is_who_the_core_chooses_then(
    requests: list[Request], policy: str
) -> None:
    device = allocator(policy, preemption="never", **({} if policy == "fifo" else {"starvation_bound_s": None}))
    now_s = 0.0
    for each in requests:
        device.submit(each, now_s)
    while (holder := device.holder) is not None:
        expected = device.successor(now_s)
        now_s += sum(holder.block_times_s)
        grants = device.finish(holder.request_id, now_s).grants
        assert grants == (() if expected is None else (expected,))
