"""What holds for every policy, as checks of one workload each; tests of two lengths draw the workloads."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.policies.table import POLICIES, make_policy
from deployments.scheduling.request import Request
from deployments.simulation.simulator import Run, simulate

from .builders import request
from .reference import due, should_hold

TICK_S = 1 / 64
ticks = st.integers(0, 120).map(lambda number: number * TICK_S)
block_ticks = st.integers(1, 64).map(lambda number: number * TICK_S)


@st.composite
def workloads(draw: st.DrawFn, max_requests: int = 12, num_levels: int = 2) -> list[Request]:
    """Requests in arrival order, of a few models, some of them tight."""
    requests = []
    arrival_s = 0.0
    for number in range(draw(st.integers(1, max_requests))):
        arrival_s += draw(ticks)
        blocks_s = draw(st.lists(block_ticks, min_size=1, max_size=4))
        requests.append(
            request(
                str(number),
                *blocks_s,
                arrival_s=arrival_s,
                model=draw(st.sampled_from("abc")),
                deadline_s=arrival_s + draw(st.integers(0, 600)) * TICK_S,
                priority=draw(st.integers(1, num_levels)),
            )
        )
    return requests


def run_with(policy: str, requests: list[Request], **options: object) -> Run:
    device = DeviceAllocator(policy=make_policy(policy, options))
    run = simulate(requests, device, record_slices=True)
    assert not device.holders
    assert not device.waiting
    return run


@dataclass
class Step:
    """One thing that happens to a policy object."""

    kind: str
    pick: int
    ticks: int
    blocks: list[int]


steps = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from(["add", "add", "add", "remove", "hold", "release", "advance", "advance"]),
        pick=st.integers(0, 99),
        ticks=st.integers(0, 300),
        blocks=st.lists(st.integers(1, 64), min_size=1, max_size=3),
    ),
    max_size=30,
)


def check_every_request_ends_once_after_all_its_blocks_in_order(policy: str, requests: list[Request]) -> None:
    run = run_with(policy, requests)
    assert run.finish_s.keys() == {each.request_id for each in requests}
    for each in requests:
        turns = [turn for turn in run.slices if turn.request_id == each.request_id]
        blocks = [block for turn in turns for block in range(turn.first_block, turn.first_block + turn.num_blocks)]
        assert blocks == list(range(len(each.block_times_s)))
        assert turns[0].start_s >= each.arrival_s


def check_the_device_is_never_shared_and_never_idle_while_somebody_waits(policy: str, requests: list[Request]) -> None:
    run = run_with(policy, requests)
    free_s = 0.0
    for turn in run.slices:
        pending = [each for each in requests if run.finish_s[each.request_id] >= turn.end_s]
        assert turn.start_s == max(free_s, min(each.arrival_s for each in pending))
        free_s = turn.end_s


def check_all_policies_are_done_at_the_same_time(requests: list[Request]) -> None:
    ends = {max(run_with(policy, requests).finish_s.values()) for policy in POLICIES}
    assert len(ends) == 1


def check_fifo_serves_in_arrival_order(requests: list[Request]) -> None:
    finish_s = run_with("fifo", requests).finish_s
    ends = [finish_s[each.request_id] for each in requests]
    assert ends == sorted(ends)


def check_with_admission_whoever_is_served_is_on_time(requests: list[Request]) -> None:
    run = run_with("slo", requests, admission="anyone_waiting")
    for each in requests:
        if each.request_id in run.finish_s:
            assert run.finish_s[each.request_id] <= each.deadline_s


def check_nobody_waits_longer_than_the_starvation_bound_promises(
    policy: str, requests: list[Request], bound: int, bound_ratio: float | None, share: float
) -> None:
    bound_s = bound * TICK_S
    options = {"starvation_bound_s": bound_s, "starvation_bound_ratio": bound_ratio, "promoted_share": share}
    finish_s = run_with(policy, requests, **options).finish_s
    # sjf lets a holder run to its end, so the unit that cannot be preempted is a whole request there
    longest_s = max(sum(each.block_times_s) if policy == "sjf" else max(each.block_times_s) for each in requests)
    due_s = [due(each, bound_s, bound_ratio) for each in requests]
    for each, each_due_s in zip(requests, due_s, strict=True):
        before_s = sum(
            sum(other.block_times_s)
            for other, other_due_s in zip(requests, due_s, strict=True)
            if other_due_s <= each_due_s
        )
        promised_s = each_due_s + (before_s + 2 * longest_s) / share + 2 * longest_s
        assert finish_s[each.request_id] <= promised_s


def check_the_incremental_policy_chooses_what_its_stateless_meaning_says(
    policy: str, happenings: list[Step], bound: float | None, bound_ratio: float | None, across: bool
) -> None:
    options = {
        "starvation_bound_s": bound,
        "starvation_bound_ratio": bound_ratio,
        "promoted_share": 1.0,
        "promote_across_priorities": across,
    }
    chooser = make_policy(policy, {} if policy == "fifo" else options)
    waiting: list[Candidate] = []
    holder: Candidate | None = None
    now_s = 0.0
    for number, step in enumerate(happenings):
        if step.kind == "add":
            each = request(
                str(number),
                *[block * TICK_S for block in step.blocks],
                arrival_s=now_s,
                model="abc"[step.pick % 3],
                deadline_s=now_s + step.ticks * TICK_S,
                priority=1 + step.pick // 66,
            )
            waiting.append(Candidate(each, number))
            chooser.add(waiting[-1])
        elif step.kind in ("remove", "hold") and waiting:
            taken = waiting.pop(step.pick % len(waiting))
            chooser.remove(taken)
            if step.kind == "hold":
                if holder is not None:
                    waiting.append(holder)
                    chooser.add(holder)
                holder = taken
        elif step.kind == "release":
            holder = None
        elif step.kind == "advance":  # a predicted boundary may also lie behind an earlier one
            now_s = max(0.0, now_s + (step.ticks - 30) * TICK_S)
        expected = should_hold(policy, waiting, holder, now_s, bound_s=bound, bound_ratio=bound_ratio, across=across)
        assert chooser.choose(now_s, holder) is expected
