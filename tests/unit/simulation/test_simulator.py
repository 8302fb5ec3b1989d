"""The event loop, by hand-made examples."""

from __future__ import annotations

import pytest

from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.policies.table import make_policy
from deployments.scheduling.request import Request, RequestId
from deployments.simulation.arrivals import ClosedLoop
from deployments.simulation.costs import Costs
from deployments.simulation.grant_order import grant_order
from deployments.simulation.models import paper_models
from deployments.simulation.routers import ROUTERS
from deployments.simulation.simulator import Run, simulate, simulate_devices


def request(name: str, arrival_s: float, *blocks_s: float) -> Request:
    return Request(
        request_id=RequestId(name),
        model=name,
        owner=name,
        arrival_s=arrival_s,
        isolated_s=sum(blocks_s),
        block_times_s=blocks_s,
        deadline_s=arrival_s + 4.0 * sum(blocks_s),
    )


LONG = request("long", 0.0, 1.0, 1.0, 1.0)
SHORT = request("short", 0.25, 0.5)


def run(policy: str, *requests: Request, costs: Costs | None = None) -> Run:
    return simulate(requests, DeviceAllocator(policy=make_policy(policy)), costs=costs or Costs(), record_slices=True)


def test_a_short_request_gets_in_after_one_block_of_the_long_one() -> None:
    assert run("srpt", LONG, SHORT).finish_s == {"short": 1.5, "long": 3.5}
    assert run("fifo", LONG, SHORT).finish_s == {"long": 3.0, "short": 3.5}


def test_every_hand_over_costs_its_time_and_a_turn_that_goes_on_costs_nothing() -> None:
    finish_s = run("srpt", LONG, SHORT, costs=Costs(handover_s=0.125)).finish_s
    assert finish_s == {"short": 0.125 + 1.0 + 0.125 + 0.5, "long": 0.125 + 1.0 + 0.125 + 0.5 + 0.125 + 2.0}


def test_noise_keeps_the_order_of_blocks_and_is_the_same_for_the_same_seed() -> None:
    costs = Costs(noise_cv=0.2)
    first, second = run("srpt", LONG, SHORT, costs=costs), run("srpt", LONG, SHORT, costs=costs)
    assert first.finish_s == second.finish_s
    assert first.finish_s != run("srpt", LONG, SHORT).finish_s


def test_the_slices_tell_who_ran_which_blocks_when() -> None:
    slices = run("srpt", LONG, SHORT).slices
    assert [(each.request_id, each.first_block, each.num_blocks, each.start_s, each.end_s) for each in slices] == [
        ("long", 0, 1, 0.0, 1.0),
        ("short", 0, 1, 1.0, 1.5),
        ("long", 1, 2, 1.5, 3.5),
    ]


def test_the_grant_order_names_each_turn_once() -> None:
    assert grant_order([SHORT, LONG], make_policy("srpt")) == [("long", 0), ("short", 0), ("long", 1)]
    assert grant_order([SHORT, LONG], make_policy("fifo")) == [("long", 0), ("short", 0)]


def test_a_full_queue_refuses_and_the_run_goes_on() -> None:
    allocator = DeviceAllocator(policy=make_policy("fifo"), max_waiting=0)
    outcome = simulate([LONG, SHORT, request("later", 3.0, 1.0)], allocator)
    assert outcome.finish_s == {"long": 3.0, "later": 4.0}
    assert len(outcome.requests) == 3


@pytest.mark.parametrize("admission", ["off", "anyone_waiting"])
def test_in_a_closed_loop_each_client_has_one_request_at_a_time_and_all_are_sent(admission: str) -> None:
    loop = ClosedLoop(list(paper_models().values()), num_clients=7, think_s=0.01, num_requests=60, alpha=4.0, seed=1)
    allocator = DeviceAllocator(policy=make_policy("slo", {"admission": admission}))
    outcome = simulate(loop.first, allocator, next_request=loop.next_request)
    assert len(outcome.requests) == 60
    open_at_once = 0
    for each in outcome.requests:
        before = [other for other in outcome.requests if other.arrival_s <= each.arrival_s]
        pending = [other for other in before if outcome.finish_s.get(other.request_id, 0.0) > each.arrival_s]
        open_at_once = max(open_at_once, len(pending))
    assert open_at_once <= 7


SHARED = [request(f"r{number}", 0.25 * number, 1.0) for number in range(6)]


def run_shared(router: str, *, hop_s: float = 0.0) -> Run:
    allocators = [DeviceAllocator(policy=make_policy("fifo")) for _ in range(2)]
    return simulate_devices(SHARED, allocators, ROUTERS[router](hop_s, 0), costs=Costs(hop_s=hop_s))


@pytest.mark.parametrize("router", [name for name in ROUTERS if name != "random"])
def test_two_devices_do_the_work_of_one_in_half_the_time_whoever_shares_it_out_well(router: str) -> None:
    finish_s = run_shared(router).finish_s
    assert sorted(finish_s.values()) == [1.0, 1.25, 2.0, 2.25, 3.0, 3.25]


@pytest.mark.parametrize("router", ROUTERS)
def test_every_request_is_answered_once_whatever_shares_them_out(router: str) -> None:
    outcome = run_shared(router, hop_s=0.125)
    assert sorted(outcome.finish_s) == sorted(each.request_id for each in SHARED)
    assert outcome.busy_s == pytest.approx(6.0)
    assert outcome.num_devices == 2


def test_a_request_on_its_way_to_another_device_arrives_a_hop_later() -> None:
    there_s = [run_shared("round_robin", hop_s=hop_s).finish_s["r0"] for hop_s in (0.0, 0.125)]
    assert there_s == [1.0, 1.125]  # with this seed it comes in at the second device, and its turn is the first's
