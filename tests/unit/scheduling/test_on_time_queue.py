"""``slo`` in whole runs: what is kept up to date is what a walk from scratch gives, at every decision."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.policies.levels import Levels
from deployments.scheduling.policies.on_time import deadline_order, on_time_set
from deployments.scheduling.policies.on_time_queue import OnTimeQueue
from deployments.scheduling.policies.options import SloOptions
from deployments.scheduling.policies.slo import Slo, should_hold
from deployments.scheduling.request import Request
from deployments.simulation.costs import Costs
from deployments.simulation.simulator import simulate

from .builders import request
from .checks import workloads


class CheckedSlo(Slo):
    """Compares each answer with the stateless meaning over a list."""

    def __init__(self, late_reserve: float | None) -> None:
        super().__init__(late_reserve)
        self.waiting: list[Candidate] = []
        self.late_reserve = late_reserve

    def add(self, candidate: Candidate) -> None:
        super().add(candidate)
        self.waiting.append(candidate)

    def remove(self, candidate: Candidate) -> None:
        super().remove(candidate)
        self.waiting.remove(candidate)

    def choose(self, now_s: float, holder: Candidate | None) -> Candidate | None:
        chosen = super().choose(now_s, holder)
        assert chosen is should_hold(self.waiting, holder, now_s, self.late_reserve)
        assert set(self.late_ones(now_s, holder)) == set(
            on_time_set(deadline_order(self.waiting, holder), now_s, holder).aside
        )
        return chosen


@given(
    requests=workloads(max_requests=40, num_levels=1),
    late_reserve=st.sampled_from([None, 0.0, 0.25]),
    bound_s=st.sampled_from([None, 4.0]),
    handover=st.sampled_from([0, 0, 1]),
    noise_cv=st.sampled_from([0.0, 0.0, 0.05, 0.5]),
)
def test_in_a_whole_run_every_decision_is_the_stateless_one(
    requests: list[Request], late_reserve: float | None, bound_s: float | None, handover: int, noise_cv: float
) -> None:
    options = SloOptions(starvation_bound_s=bound_s, starvation_bound_ratio=None)
    device = DeviceAllocator(policy=Levels(lambda: CheckedSlo(late_reserve), options))
    run = simulate(requests, device, costs=Costs(handover_s=handover / 64, noise_cv=noise_cv))
    assert len(run.finish_s) == len(requests)


def _candidate(number: int, *blocks_s: float, deadline_s: float) -> Candidate:
    return Candidate(request(str(number), *blocks_s, deadline_s=deadline_s), number)


def test_a_newcomer_that_pushes_one_out_may_bring_another_back() -> None:
    queue = OnTimeQueue()
    long, middle = _candidate(0, 3.0, deadline_s=4.0), _candidate(1, 2.0, deadline_s=2.0)
    queue.add(long)
    queue.add(middle)
    queue.settle(0.0, None)
    assert (queue.first(), queue.late()) == (middle, [long])
    short = _candidate(2, 1.0, deadline_s=1.0)
    queue.add(short)
    queue.settle(0.0, None)
    assert (queue.first(), queue.late()) == (short, [middle])


def test_what_is_kept_stays_while_the_first_runs() -> None:
    queue = OnTimeQueue()
    members = [
        _candidate(0, 1.0, 1.0, deadline_s=2.0),
        _candidate(1, 4.0, deadline_s=5.0),
        _candidate(2, deadline_s=3.0),
    ]
    for each in members:
        queue.add(each)
    queue.settle(0.0, None)
    queue.remove(members[0])
    members[0].stop_at(1)
    queue.settle(1.0, members[0])
    assert (queue.first(), queue.late()) == (members[0], [members[1]])
    queue.settle(2.0, None)
    assert (queue.first(), queue.late(), len(queue)) == (members[2], [members[1]], 2)
