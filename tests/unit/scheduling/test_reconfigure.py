"""Other rules for a device while requests wait and run."""

from __future__ import annotations

from deployments.scheduling.decision import Decision
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.modes import find_mode
from deployments.scheduling.policies.table import make_policy

from .builders import request

LONG = request("long", 1.0, 1.0, 1.0)
MIDDLE = request("middle", 1.0, arrival_s=0.25)
SHORT = request("short", 0.5, arrival_s=0.5)


def names(decision: Decision) -> list[str]:
    return [each.request_id for each in decision.grants]


def device_in(mode: str) -> DeviceAllocator:
    found = find_mode(mode)
    return DeviceAllocator(policy=make_policy(found.policy), exclusive=found.exclusive, preemption=found.preemption)


def change(device: DeviceAllocator, mode: str, now_s: float, max_waiting: int | None = None) -> Decision:
    found = find_mode(mode)
    return device.reconfigure(
        policy=make_policy(found.policy),
        exclusive=found.exclusive,
        preemption=found.preemption,
        max_waiting=max_waiting,
        max_waiting_per_model=None,
        now_s=now_s,
    )


def test_who_waits_is_ordered_by_the_new_policy_and_the_holder_gives_way() -> None:
    device = device_in("fifo")
    device.submit(LONG, 0.0)
    device.submit(MIDDLE, 0.25)
    device.submit(SHORT, 0.5)
    assert change(device, "oyst", 0.5).revoke == "long"
    assert names(device.yield_at_boundary(LONG.request_id, blocks_done=1, now_s=1.0)) == ["short"]
    assert change(device, "fifo", 1.25) == Decision()
    assert names(device.finish(SHORT.request_id, 1.5)) == ["long"]


def test_all_that_wait_run_when_the_device_is_no_longer_exclusive() -> None:
    device = device_in("slo")
    for each in (LONG, MIDDLE, SHORT):
        device.submit(each, each.arrival_s)
    assert sorted(names(change(device, "parallel", 0.5))) == ["middle", "short"]
    assert len(device.holders) == 3


def test_nothing_is_granted_on_a_device_that_became_exclusive_before_one_holder_is_left() -> None:
    device = device_in("parallel")
    for each in (LONG, MIDDLE):
        device.submit(each, each.arrival_s)
    assert change(device, "fifo", 0.5) == Decision()
    assert names(device.submit(SHORT, 0.5)) == []
    assert names(device.finish(LONG.request_id, 1.0)) == []
    assert device.holder == MIDDLE
    assert names(device.finish(MIDDLE.request_id, 1.5)) == ["short"]


def test_holders_that_yield_or_vanish_count_as_gone() -> None:
    device = device_in("parallel")
    for each in (LONG, MIDDLE, SHORT):
        device.submit(each, each.arrival_s)
    change(device, "fifo", 0.5)
    device.yield_at_boundary(LONG.request_id, blocks_done=1, now_s=1.0)
    device.forget_owner(MIDDLE.owner, 1.0)
    assert device.holder == SHORT
    assert names(device.finish(SHORT.request_id, 1.5)) == ["long"]


def test_a_smaller_bound_refuses_nobody_who_waits_already() -> None:
    device = device_in("fifo")
    for each in (LONG, MIDDLE, SHORT):
        device.submit(each, each.arrival_s)
    change(device, "fifo", 0.5, max_waiting=1)
    assert device.num_waiting == 2


def test_nothing_is_granted_beside_the_last_holder_of_a_device_that_became_exclusive_while_it_recovered() -> None:
    found = find_mode("parallel")
    device = DeviceAllocator(policy=make_policy(found.policy), exclusive=False, recovering=True)
    device.announce(LONG, blocks_done=0, is_holding=True, now_s=0.0)
    device.announce(MIDDLE, blocks_done=0, is_holding=True, now_s=0.0)
    device.announce(SHORT, blocks_done=0, is_holding=False, now_s=0.0)
    assert change(device, "fifo", 0.0) == Decision()
    assert names(device.finish(LONG.request_id, 0.5)) == []
    assert names(device.resume(0.5)) == []
    assert device.holder == MIDDLE
    assert names(device.finish(MIDDLE.request_id, 1.0)) == ["short"]


def test_a_recovering_device_stays_so() -> None:
    found = find_mode("slo")
    device = DeviceAllocator(policy=make_policy(found.policy), recovering=True)
    device.announce(LONG, blocks_done=1, is_holding=False, now_s=0.0)
    assert change(device, "fifo", 0.0) == Decision()
    assert names(device.resume(1.0)) == ["long"]
