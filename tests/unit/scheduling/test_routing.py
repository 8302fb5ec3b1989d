"""A request goes where it waits least; what is idle needs no forecast, and going elsewhere has to pay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.policies.table import POLICIES, make_policy
from deployments.scheduling.request import Request, RequestId
from deployments.scheduling.routing import MAX_FORECASTS, choose_device
from deployments.simulation.routers import Queue
from deployments.simulation.simulator import simulate_devices

from .checks import workloads


def request(name: str, *blocks_s: float, arrival_s: float = 0.0, priority: int = 1, alpha: float = 4.0) -> Request:
    return Request(
        request_id=RequestId(name),
        model=name.split("-")[0],
        owner="replica",
        arrival_s=arrival_s,
        isolated_s=sum(blocks_s),
        block_times_s=blocks_s,
        deadline_s=arrival_s + alpha * sum(blocks_s),
        priority=priority,
    )


NEWCOMER = request("new", 1.0)


@dataclass
class Device:
    """A device that waits as stated, and counts who asks."""

    wait_s: float
    work: float | None = None
    num_asked: int = 0

    @property
    def is_idle(self) -> bool:
        return self.wait_s == 0.0

    def work_s(self, now_s: float) -> float:
        return self.wait_s if self.work is None else self.work

    def predicted_wait_s(self, request: Request, now_s: float, limit_s: float = inf) -> float:
        self.num_asked += 1
        return self.wait_s


def choose(*waits_s: float, first: int = 0, hop_s: float = 0.0) -> int:
    return choose_device([Device(each) for each in waits_s], NEWCOMER, 0.0, first=first, hop_s=hop_s)


@pytest.mark.parametrize(
    ("waits_s", "first", "hop_s", "chosen"),
    [
        ((0.0, 0.0), 1, 0.0, 1),
        ((3.0, 0.0, 0.0), 0, 0.0, 1),
        ((0.0, 0.0, 3.0), 2, 0.0, 0),
        ((3.0, 2.0, 1.0), 0, 0.0, 2),
        ((3.0, 2.0), 0, 0.5, 1),
        ((3.0, 2.0), 0, 1.0, 0),
        ((0.4, 0.0), 0, 0.5, 0),
        ((0.6, 0.0), 0, 0.5, 1),
        ((inf, 7.0), 0, 0.5, 1),
    ],
)
def test_the_least_wait_is_chosen_where_going_there_pays(
    waits_s: tuple[float, ...], first: int, hop_s: float, chosen: int
) -> None:
    assert choose(*waits_s, first=first, hop_s=hop_s) == chosen


def test_on_equal_waits_the_device_with_less_work_is_chosen() -> None:
    assert choose_device([Device(1.0, work=9.0), Device(1.0, work=5.0)], NEWCOMER, 0.0) == 1


def test_of_many_devices_only_the_next_few_are_asked() -> None:
    devices = [Device(float(number + 1)) for number in range(64)]
    assert choose_device(devices, NEWCOMER, 0.0, first=62) == 0
    asked = {number % 64 for number in range(62, 62 + MAX_FORECASTS + 1)}
    assert {number for number, each in enumerate(devices) if each.num_asked} == asked


waits = st.lists(st.floats(0.0, 10.0), min_size=1, max_size=6)


@given(waits, st.data(), st.floats(0.0, 2.0))
def test_nobody_goes_where_it_does_not_pay_and_nobody_waits_longer_than_needed(
    waits_s: list[float], data: st.DataObject, hop_s: float
) -> None:
    first = data.draw(st.integers(0, len(waits_s) - 1))
    devices = [Device(each) for each in waits_s]
    chosen = choose_device(devices, NEWCOMER, 0.0, first=first, hop_s=hop_s, max_forecasts=len(waits_s))
    costs = [each + (0.0 if number == first else hop_s) for number, each in enumerate(waits_s)]
    assert costs[chosen] == min(costs)


queues = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(1, 64), st.integers(1, 3), st.sampled_from([1, 1, 2]), st.integers(1, 8)
    ),
    max_size=8,
)


@pytest.mark.parametrize("policy", POLICIES)
@given(queues, st.integers(1, 64), st.sampled_from([1, 2]))
def test_a_forecast_says_how_long_a_request_will_wait_and_changes_nothing(
    policy: str, queue: list[tuple[str, int, int, int, int]], time_64: int, priority: int
) -> None:
    """Whole blocks of a 64th of a second; nobody comes after the newcomer, and time stands still until it has come."""
    device = DeviceAllocator(policy=make_policy(policy, {} if policy == "fifo" else {"starvation_bound_s": None}))
    for number, (model, block_64, num_blocks, level, alpha) in enumerate(queue):
        blocks_s = (block_64 / 64,) * num_blocks
        device.submit(request(f"{model}-{number}", *blocks_s, priority=level, alpha=float(alpha)), 0.0)
    newcomer = request("n-new", time_64 / 64, priority=priority)
    before = device.snapshot(0.0)
    predicted_s = device.predicted_wait_s(newcomer, 0.0)
    assert device.snapshot(0.0) == before
    assert 0.0 <= predicted_s <= device.work_s(0.0) + 1e-9
    device.submit(newcomer, 0.0)
    if device.holder == newcomer:
        assert predicted_s == 0.0


@pytest.mark.parametrize("policy", POLICIES)
@given(workloads(max_requests=16))
def test_a_device_that_is_asked_about_each_request_does_what_one_that_is_not_asked_does(
    policy: str, requests: list[Request]
) -> None:
    def ask(devices: Sequence[Queue], newcomer: Request, now_s: float, first: int) -> int:
        assert devices[first].predicted_wait_s(newcomer, now_s) >= 0.0
        return first

    runs = [
        simulate_devices(requests, [DeviceAllocator(policy=make_policy(policy))], router)
        for router in (ask, lambda devices, newcomer, now_s, first: first)
    ]
    assert runs[0].finish_s == runs[1].finish_s
    assert sorted(runs[0].finish_s) == sorted(each.request_id for each in requests)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_request_that_was_asked_about_before_it_came_can_be_cancelled(policy: str) -> None:
    device = DeviceAllocator(policy=make_policy(policy))
    device.submit(request("a", 1.0), 0.0)
    newcomer = request("n", 1.0, 1.0, 1.0, arrival_s=0.5)
    device.predicted_wait_s(newcomer, 0.5)
    device.submit(newcomer, 0.5)
    assert device.finish(RequestId("a"), 1.0).grants == (newcomer,)
    device.cancel(newcomer.request_id, 1.5)
    assert device.yield_at_boundary(newcomer.request_id, blocks_done=1, now_s=2.0).grants == ()
    assert device.is_idle
