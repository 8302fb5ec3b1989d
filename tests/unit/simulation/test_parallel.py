"""Mode ``parallel``: one process per model, the processes share the device."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.policies.table import make_policy
from deployments.scheduling.request import Request
from deployments.simulation.arrivals import ClosedLoop
from deployments.simulation.models import paper_models
from deployments.simulation.parallel import simulate_parallel
from deployments.simulation.simulator import Run, simulate
from tests.unit.scheduling.builders import request
from tests.unit.scheduling.checks import workloads

LONG = request("long", 1.0, 1.0, 1.0, arrival_s=0.0, model="long")
SHORT = request("short", 0.5, arrival_s=0.25, model="short")


def run_parallel(*requests: Request, interference: float = 1.0) -> Run:
    device = DeviceAllocator(policy=make_policy("fifo"), exclusive=False, preemption="never")
    run = simulate_parallel(requests, device, interference=interference, record_slices=True)
    assert not device.holders
    return run


def run_fifo(requests: list[Request]) -> Run:
    return simulate(requests, DeviceAllocator(policy=make_policy("fifo"), preemption="never"))


def shared_evenly(requests: list[Request], interference: float) -> dict[str, float]:
    """When each ends if all that are there share the device: whoever has the least left ends next."""
    left_s: dict[str, float] = {}
    finish_s: dict[str, float] = {}
    now_s = 0.0
    for newcomer in [*requests, None]:
        until_s = float("inf") if newcomer is None else newcomer.arrival_s
        while left_s:
            stretch = 1.0 + interference * (len(left_s) - 1)
            first = min(left_s, key=left_s.__getitem__)
            served_s = min(left_s[first], (until_s - now_s) / stretch)
            is_over = served_s == left_s[first]
            left_s = {name: time_s - served_s for name, time_s in left_s.items()}
            now_s += served_s * stretch
            if not is_over:
                break
            del left_s[first]
            finish_s[first] = now_s
        if newcomer is not None:
            now_s = until_s
            left_s[newcomer.request_id] = newcomer.isolated_s
    return finish_s


def test_the_models_share_the_device() -> None:
    assert run_parallel(LONG, SHORT).finish_s == {"short": 0.25 + 2 * 0.5, "long": 3.5}
    assert run_parallel(LONG, SHORT).busy_s == 3.5


def test_requests_of_one_model_run_one_after_the_other() -> None:
    again = dataclasses.replace(SHORT, request_id="again")
    run = run_parallel(LONG, SHORT, again)
    assert run.finish_s == {"short": 1.25, "again": 2.25, "long": 4.0}
    assert [(each.request_id, each.start_s, each.end_s) for each in run.slices] == [
        ("short", 0.25, 1.25),
        ("again", 1.25, 2.25),
        ("long", 0.0, 4.0),
    ]


def test_interference_says_how_much_several_slow_each_other_down() -> None:
    assert run_parallel(LONG, SHORT, interference=0.0).finish_s == {"short": 0.75, "long": 3.0}
    assert run_parallel(LONG, SHORT, interference=2.0).finish_s == {"short": 0.25 + 3 * 0.5, "long": 4.0}


def test_a_closed_loop_goes_on_until_all_are_sent() -> None:
    loop = ClosedLoop(list(paper_models().values()), num_clients=7, think_s=0.01, num_requests=60, alpha=4.0, seed=1)
    device = DeviceAllocator(policy=make_policy("fifo"), exclusive=False)
    outcome = simulate_parallel(loop.first, device, interference=1.0, next_request=loop.next_request)
    assert len(outcome.finish_s) == 60
    assert not device.holders


@given(requests=workloads())
def test_sharing_loses_no_time(requests: list[Request]) -> None:
    run, one_by_one = run_parallel(*requests), run_fifo(requests)
    assert run.busy_s == pytest.approx(one_by_one.busy_s)
    assert max(run.finish_s.values()) == pytest.approx(max(one_by_one.finish_s.values()))


@given(requests=workloads(), interference=st.sampled_from([0.0, 0.5, 1.0, 1.5]))
def test_each_request_begins_when_it_comes_or_when_the_one_of_its_model_before_it_ends(
    requests: list[Request], interference: float
) -> None:
    run = run_parallel(*requests, interference=interference)
    began_s = {each.request_id: each.start_s for each in run.slices}
    assert sorted(began_s) == sorted(run.finish_s) == sorted(each.request_id for each in requests)
    free_s: dict[str, float] = {}
    for each in requests:
        assert began_s[each.request_id] == max(each.arrival_s, free_s.get(each.model, 0.0))
        free_s[each.model] = run.finish_s[each.request_id]


@given(requests=workloads(), interference=st.sampled_from([0.0, 1.0, 1.5]))
def test_one_model_alone_is_served_as_by_fifo(requests: list[Request], interference: float) -> None:
    alone = [dataclasses.replace(each, model="only") for each in requests]
    assert run_parallel(*alone, interference=interference).finish_s == pytest.approx(run_fifo(alone).finish_s)


@given(requests=workloads(), interference=st.sampled_from([0.0, 1.0, 1.5]))
def test_with_a_model_for_each_all_that_are_there_share_the_device(
    requests: list[Request], interference: float
) -> None:
    apart = [dataclasses.replace(each, model=each.request_id) for each in requests]
    assert run_parallel(*apart, interference=interference).finish_s == pytest.approx(shared_evenly(apart, interference))
