"""A machine that sends all events in random order and checks each answer against a model made of a plain list."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.decision import Decision
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.errors import (
    DuplicateRequestError,
    NotHolderError,
    QueueFullError,
    SchedulingError,
    TwoHoldersError,
    UnknownRequestError,
)
from deployments.scheduling.policies.table import POLICIES, make_policy
from deployments.scheduling.request import Request, RequestId

from .builders import request
from .reference import should_hold

TICK_S = 1 / 64
MAX_WAITING = 6


@dataclass
class Entry:
    """What the model knows of a request that has not ended."""

    request: Request
    number: int
    blocks_done: int = 0
    is_holding: bool = False
    is_cancelled: bool = False
    is_revoked: bool = False
    began_s: float = 0.0

    @property
    def num_blocks(self) -> int:
        return len(self.request.block_times_s)


class AllocatorMachine(RuleBasedStateMachine):
    """The allocator beside a list of entries."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.ended: list[str] = []
        self.now_s = 0.0
        self.number = 0

    @initialize(
        policy=st.sampled_from(list(POLICIES)),
        bound_s=st.sampled_from([None, 4.0]),
        preemption=st.sampled_from(["always", "always", "never"]),
        recovering=st.booleans(),
    )
    def start(self, policy: str, bound_s: float | None, preemption: str, recovering: bool) -> None:
        self.policy, self.bound_s = policy, bound_s
        self.is_preemptive = preemption == "always"
        self.recovering = recovering
        options = {"starvation_bound_s": bound_s, "starvation_bound_ratio": None, "promoted_share": 1.0}
        self.device = DeviceAllocator(
            policy=make_policy(policy, {} if policy == "fifo" else options),
            preemption=preemption,  # type: ignore[arg-type]
            max_waiting=MAX_WAITING,
            recovering=recovering,
        )

    # --- the model

    @property
    def holder(self) -> Entry | None:
        return next((entry for entry in self.entries if entry.is_holding), None)

    @property
    def waiting(self) -> list[Entry]:
        return [entry for entry in self.entries if not entry.is_holding]

    def _best(self, at_s: float, holder: Entry | None, holder_blocks_done: int) -> Entry | None:
        """Who should hold the device at a boundary: the stateless meaning over the list."""
        if holder is not None and not self.is_preemptive:
            return holder
        candidates = {
            entry.request.request_id: Candidate(entry.request, entry.number, blocks_done=entry.blocks_done)
            for entry in self.entries
        }
        running = None
        if holder is not None:
            running = Candidate(holder.request, holder.number)
            running.stop_at(holder_blocks_done)
            del candidates[holder.request.request_id]
        chosen = should_hold(self.policy, list(candidates.values()), running, at_s, bound_s=self.bound_s)
        if chosen is None:
            return None
        return next(entry for entry in self.entries if entry.request.request_id == chosen.request.request_id)

    def _end(self, entry: Entry) -> None:
        self.entries.remove(entry)
        self.ended.append(str(entry.request.request_id))

    def _grant(self, entry: Entry) -> None:
        entry.is_holding, entry.is_revoked, entry.began_s = True, False, self.now_s

    def _check(self, decision: Decision) -> None:
        """Carry out in the model what must follow, and compare."""
        holder = self.holder
        grants: tuple[Request, ...] = ()
        revoke = keep = None
        if self.recovering:
            pass
        elif holder is None:
            best = self._best(self.now_s, None, 0)
            if best is not None:
                self._grant(best)
                grants = (best.request,)
        elif not holder.is_cancelled:
            boundary_s = self.now_s
            should_go = False
            if holder.blocks_done + 1 < holder.num_blocks:
                block_s = holder.request.block_times_s[holder.blocks_done]
                boundary_s = max(self.now_s, holder.began_s + block_s)
                should_go = self._best(boundary_s, holder, holder.blocks_done + 1) is not holder
            if should_go and not holder.is_revoked:
                revoke = holder.request.request_id
            if holder.is_revoked and not should_go:
                keep = holder.request.request_id
            holder.is_revoked = should_go
        assert decision.grants == grants
        assert decision.revoke == revoke
        assert decision.keep == keep
        assert decision.look_again_s is None or decision.look_again_s > self.now_s

    def _make(self, blocks: list[int], model: str, priority: int, due: int) -> Request:
        self.number += 1
        return request(
            str(self.number),
            *[block * TICK_S for block in blocks],
            arrival_s=self.now_s,
            model=model,
            owner=f"replica-{model}",
            deadline_s=self.now_s + due * TICK_S,
            priority=priority,
        )

    # --- events

    @rule(
        blocks=st.lists(st.integers(1, 64), min_size=1, max_size=4),
        model=st.sampled_from("abc"),
        priority=st.sampled_from([1, 1, 2]),
        due=st.integers(0, 600),
    )
    def submit(self, blocks: list[int], model: str, priority: int, due: int) -> None:
        made = self._make(blocks, model, priority, due)
        must_wait = self.holder is not None or self.recovering
        try:
            decision = self.device.submit(made, self.now_s)
        except QueueFullError:
            assert must_wait
            assert len(self.waiting) >= MAX_WAITING
            return
        assert not must_wait or len(self.waiting) < MAX_WAITING
        self.entries.append(Entry(made, self.device_number()))
        self._check(decision)

    def device_number(self) -> int:
        """Later entries have larger numbers, as in the allocator."""
        return self.number

    @rule(
        blocks=st.lists(st.integers(1, 64), min_size=1, max_size=4),
        model=st.sampled_from("abc"),
        done=st.integers(0, 3),
        is_holding=st.booleans(),
    )
    def announce(self, blocks: list[int], model: str, done: int, is_holding: bool) -> None:
        made = self._make(blocks, model, 1, 64)
        done = min(done, len(blocks) - 1)
        if is_holding and self.holder is not None:
            self._expect_no_change(
                TwoHoldersError,
                lambda: self.device.announce(made, blocks_done=done, is_holding=True, now_s=self.now_s),
            )
            return
        decision = self.device.announce(made, blocks_done=done, is_holding=is_holding, now_s=self.now_s)
        self.entries.append(Entry(made, self.number, blocks_done=done, is_holding=is_holding, began_s=self.now_s))
        self._check(decision)

    @rule()
    def resume(self) -> None:
        self.recovering = False
        self._check(self.device.resume(self.now_s))

    @precondition(lambda self: self.holder is not None)
    @rule()
    def progress(self) -> None:
        holder = self.holder
        assert holder is not None
        self.device.progress(holder.request.request_id, holder.blocks_done, 0.0, self.now_s)  # stale
        if holder.blocks_done + 1 < holder.num_blocks:
            holder.blocks_done += 1
            holder.began_s = self.now_s
            self.device.progress(holder.request.request_id, holder.blocks_done, self.now_s, self.now_s)

    @precondition(lambda self: self.holder is not None and self.holder.blocks_done + 1 < self.holder.num_blocks)
    @rule()
    def yield_at_boundary(self) -> None:
        holder = self.holder
        assert holder is not None
        done = holder.blocks_done + 1
        decision = self.device.yield_at_boundary(holder.request.request_id, blocks_done=done, now_s=self.now_s)
        if holder.is_cancelled:
            self._end(holder)
            self._check(decision)
            return
        holder.blocks_done = done
        if self.recovering:
            holder.is_holding = holder.is_revoked = False
            assert decision == Decision()
            return
        best = self._best(self.now_s, holder, done)
        assert best is not None
        holder.is_holding = holder.is_revoked = False
        self._grant(best)
        assert decision.grants == (best.request,)

    @precondition(lambda self: self.holder is not None)
    @rule()
    def finish(self) -> None:
        holder = self.holder
        assert holder is not None
        decision = self.device.finish(holder.request.request_id, self.now_s)
        self._end(holder)
        self._check(decision)

    @precondition(lambda self: self.entries)
    @rule(pick=st.integers(0, 99))
    def cancel(self, pick: int) -> None:
        entry = self.entries[pick % len(self.entries)]
        decision = self.device.cancel(entry.request.request_id, self.now_s)
        if not entry.is_holding:
            self._end(entry)
            self._check(decision)
        else:
            assert decision.revoke == (None if entry.is_revoked else entry.request.request_id)
            assert not decision.grants
            entry.is_cancelled = entry.is_revoked = True

    @rule(model=st.sampled_from("abc"))
    def forget_owner(self, model: str) -> None:
        decision = self.device.forget_owner(f"replica-{model}", self.now_s)
        for entry in [entry for entry in self.entries if entry.request.model == model]:
            self._end(entry)
        self._check(decision)

    @rule(passed=st.integers(0, 200))
    def timer(self, passed: int) -> None:
        self.now_s += passed * TICK_S
        self._check(self.device.on_timer(self.now_s))

    @precondition(lambda self: self.entries)
    @rule(pick=st.integers(0, 99))
    def illegal_calls_change_nothing(self, pick: int) -> None:
        entry = self.entries[pick % len(self.entries)]
        name = entry.request.request_id
        gone = RequestId("gone")
        self._expect_no_change(DuplicateRequestError, lambda: self.device.submit(entry.request, self.now_s))
        self._expect_no_change(UnknownRequestError, lambda: self.device.cancel(gone, self.now_s))
        self._expect_no_change(NotHolderError, lambda: self.device.finish(gone, self.now_s))
        if not entry.is_holding:
            self._expect_no_change(NotHolderError, lambda: self.device.finish(name, self.now_s))
            self._expect_no_change(
                NotHolderError, lambda: self.device.yield_at_boundary(name, blocks_done=0, now_s=self.now_s)
            )

    def _expect_no_change(self, error_class: type[SchedulingError], call: object) -> None:
        before = self.device.snapshot(self.now_s)
        try:
            call()  # type: ignore[operator]
        except error_class:
            assert self.device.snapshot(self.now_s) == before
        else:
            raise AssertionError(f"{error_class.__name__} was not raised")

    # --- always

    @invariant()
    def the_allocator_and_the_list_agree(self) -> None:
        holder = self.holder
        assert self.device.holder == (None if holder is None else holder.request)
        assert len(self.device.holders) <= 1
        assert list(self.device.waiting) == [entry.request for entry in self.waiting]
        assert self.device.num_waiting == len(self.waiting)

    @invariant()
    def the_device_is_not_idle_while_somebody_waits(self) -> None:
        assert self.recovering or self.holder is not None or not self.entries

    @invariant()
    def every_request_ends_at_most_once(self) -> None:
        assert len(set(self.ended)) == len(self.ended)
