"""Where the time of a request went."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.errors import UnknownRequestError
from deployments.scheduling.explanation import Blocker, Explanation, Preemption, explain
from deployments.scheduling.notes import Notes
from deployments.scheduling.policies.table import POLICIES, make_policy
from deployments.scheduling.request import Request, RequestId
from deployments.simulation.costs import Costs
from deployments.simulation.simulator import Run, simulate

from .builders import allocator, request
from .checks import workloads

LONG = request("long", 1.0, 1.0, 1.0)
SHORT = request("short", 0.5, arrival_s=0.25)


def run(*requests: Request, policy: str = "srpt", handover_s: float = 0.0) -> Run:
    device = DeviceAllocator(policy=make_policy(policy))
    return simulate(requests, device, costs=Costs(handover_s=handover_s), record_slices=True)


def test_a_request_is_told_behind_whom_it_waited_and_what_it_ran_block_by_block() -> None:
    assert explain(run(LONG, SHORT).slices, SHORT) == Explanation(
        request_id=SHORT.request_id,
        model="short",
        total_s=1.25,
        ran_s=0.5,
        waited_s=0.75,
        block_s=(0.5,),
        behind=(Blocker(request_id=LONG.request_id, model="long", ran_s=0.75),),
        idle_s=0.0,
        preemptions=(),
    )


def test_a_preempted_request_is_told_by_whom_after_which_block_and_what_it_lost() -> None:
    told = explain(run(LONG, SHORT, handover_s=0.125).slices, LONG)
    assert told.preemptions == (
        Preemption(request_id=SHORT.request_id, model="short", blocks_done=1, lost_s=0.125 + 0.5 + 0.125),
    )
    assert told.block_s == (1.0, 1.0, 1.0)
    assert told.behind == (Blocker(request_id=SHORT.request_id, model="short", ran_s=0.5),)
    assert told.idle_s == 3 * 0.125


def test_a_request_that_ended_while_it_waited_is_explained_up_to_its_end() -> None:
    cancelled = request("cancelled", 4.0, arrival_s=0.5)
    told = explain(run(LONG, SHORT).slices, cancelled, end_s=2.0)
    assert (told.total_s, told.ran_s, told.waited_s) == (1.5, 0.0, 1.5)
    assert [(each.request_id, each.ran_s) for each in told.behind] == [("long", 1.0), ("short", 0.5)]


def test_a_request_without_turns_is_explained_only_if_its_end_is_known() -> None:
    with pytest.raises(UnknownRequestError):
        explain([], SHORT)
    assert explain([], SHORT, end_s=1.0).idle_s == 0.75


@given(requests=workloads(), policy=st.sampled_from(list(POLICIES)), handover=st.integers(0, 8))
def test_the_parts_of_every_explanation_are_disjoint_and_complete(
    requests: list[Request], policy: str, handover: int
) -> None:
    outcome = run(*requests, policy=policy, handover_s=handover / 64)
    for each in requests:
        told = explain(outcome.slices, each)
        assert told.total_s == pytest.approx(outcome.finish_s[each.request_id] - each.arrival_s)
        assert told.ran_s + told.waited_s == pytest.approx(told.total_s)
        assert sum(blocker.ran_s for blocker in told.behind) + told.idle_s == pytest.approx(told.waited_s)
        assert told.block_s == pytest.approx(each.block_times_s)
        assert told.idle_s >= 0.0
        names = [blocker.request_id for blocker in told.behind]
        assert len(set(names)) == len(names)
        assert each.request_id not in names
        assert {preemption.request_id for preemption in told.preemptions} <= set(names)
        assert sum(turn.request_id == each.request_id for turn in outcome.slices) == 1 + len(told.preemptions)


class TestNotes:
    """What only the allocator knows, of traced requests."""

    def _notes(self, device: DeviceAllocator, name: str) -> Notes:
        notes = device.notes(RequestId(name))
        assert notes is not None
        return notes

    def test_a_request_that_is_not_traced_has_no_notes_and_an_unknown_one_is_an_error(self) -> None:
        device = allocator()
        device.submit(LONG, 0.0)
        assert device.notes(LONG.request_id) is None
        with pytest.raises(UnknownRequestError):
            device.notes(SHORT.request_id)

    @pytest.mark.parametrize("policy", POLICIES)
    def test_the_predicted_wait_is_what_it_waits_if_nothing_else_happens(self, policy: str) -> None:
        others = [LONG, request("a", 0.5, 0.5, arrival_s=0.25), request("b", 2.0, arrival_s=0.5, deadline_s=4.0)]
        traced = request("traced", 1.5, arrival_s=0.75, is_traced=True)
        device = allocator(policy)
        for each in [*others, traced]:
            device.submit(each, each.arrival_s)
        alone = device.snapshot(0.75)
        outcome = run(*others, traced, policy=policy)
        told = explain(outcome.slices, traced, notes=self._notes(device, "traced"))
        assert told.predicted_wait_s == told.waited_s
        assert alone.waiting == device.snapshot(0.75).waiting

    def test_the_reason_of_each_turn_is_noted(self) -> None:
        device = allocator("slo", starvation_bound_s=8.0, promoted_share=1.0)
        device.submit(request("first", 1.0, 1.0, deadline_s=99.0, is_traced=True), 0.0)
        device.submit(request("late", 9.0, deadline_s=2.0, is_traced=True), 0.5)
        device.submit(request("urgent", 1.0, deadline_s=3.0, is_traced=True), 0.5)
        device.submit(request("last", 9.0, deadline_s=98.0, is_traced=True), 0.5)
        told = {name: self._notes(device, name) for name in ("first", "late", "urgent", "last")}
        now_s = 1.0
        decision = device.yield_at_boundary(RequestId("first"), blocks_done=1, now_s=now_s)
        while decision.grants:
            (holder,) = decision.grants
            now_s += holder.block_times_s[-1]
            decision = device.finish(holder.request_id, now_s)
        assert {name: each.reasons for name, each in told.items()} == {
            "first": ["alone", "promoted"],
            "urgent": ["order"],
            "late": ["late"],
            "last": ["alone"],
        }
