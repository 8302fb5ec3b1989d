"""Who waits for a device, who holds it, and what follows from that; every event of the allocator ends in ``decide``."""

from __future__ import annotations

from math import inf

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.decision import NOTHING_TO_DO, Decision, Refusal
from deployments.scheduling.errors import NotHolderError, UnknownRequestError
from deployments.scheduling.next_turn import NextTurn, boundary_s
from deployments.scheduling.request import Request, RequestId
from deployments.scheduling.rules import Rules
from deployments.scheduling.waiting_room import WaitingRoom, Watcher

_MAX_FORESEEN = 8
"""Each costs some 10 us; a device is chosen no better with more (``docs/scale.md``)."""


class DeviceState:
    """The requests of one device and the rules they compete by; arguments as of ``DeviceAllocator``.

    Attributes:
        policy: Who should hold the device.
        exclusive: False: every request is granted at once.
        recovering: Nothing is granted and nobody is revoked.
        waiting: Those that wait.
        candidates: All that wait or run, by identity.
        holders: All that run, by identity.
        holder: Who has the device; None if it is free, shared by several, or not exclusive.
    """

    def __init__(self, rules: Rules, *, handover_s: float, recovering: bool, watcher: Watcher | None) -> None:
        self.recovering = recovering
        self.candidates: dict[RequestId, Candidate] = {}
        self.holders: dict[RequestId, Candidate] = {}
        self.holder: Candidate | None = None
        self._handover_s = handover_s
        self._watcher = watcher
        self._adopt(rules)

    def change_rules(self, rules: Rules) -> None:
        """Other rules from now on; all wait on under them. O(n log n)."""
        waiting = self.waiting.in_arrival_order()
        for candidate in waiting:
            self.waiting.remove(candidate)
        self._adopt(rules)
        for candidate in waiting:
            self.waiting.add(candidate)
        self.holder = self._only_holder()

    def _adopt(self, rules: Rules) -> None:
        self.policy = policy = rules["policy"]
        self.exclusive = rules["exclusive"]
        self._next_turn = NextTurn(policy, rules["preemption"], self._handover_s)
        self.waiting = WaitingRoom(policy, rules["max_waiting"], rules["max_waiting_per_model"], self._watcher)

    # --- what is so

    @property
    def grants_nobody(self) -> bool:
        """While recovering, and while several still hold what has become an exclusive device."""
        return self.recovering or (self.exclusive and len(self.holders) > 1)

    @property
    def competing_holder(self) -> Candidate | None:
        """The holder, if it may keep the device."""
        holder = self.holder
        return None if holder is None or holder.is_cancelled else holder

    def require(self, request_id: RequestId) -> Candidate:
        """Who waits or runs under this identity.

        Raises:
            UnknownRequestError: If nobody does.
        """
        candidate = self.candidates.get(request_id)
        if candidate is None:
            raise UnknownRequestError(request_id)
        return candidate

    def require_holder(self, request_id: RequestId) -> Candidate:
        """Who runs under this identity.

        Raises:
            NotHolderError: If nobody does.
        """
        holder = self.holders.get(request_id)
        if holder is None:
            raise NotHolderError(request_id, tuple(self.holders))
        return holder

    def work_s(self, now_s: float) -> float:
        """See ``DeviceAllocator.work_s``."""
        held_s = sum(boundary_s(each, now_s) - now_s + each.remaining_s for each in self.holders.values())
        return held_s + self.waiting.waiting_s

    def predicted_wait_s(self, newcomer: Candidate, now_s: float, limit_s: float = inf) -> float:
        """See ``DeviceAllocator.predicted_wait_s``."""
        if not self.exclusive or not self.candidates:
            return 0.0
        self.policy.add(newcomer)
        wait_s = self._next_turn.short_wait_s(
            newcomer, self.competing_holder, now_s, limit_s=limit_s, max_before=_MAX_FORESEEN
        )
        self.policy.remove(newcomer)
        return self.work_s(now_s) if wait_s is None else wait_s

    def successor(self, now_s: float) -> Request | None:
        """See ``DeviceAllocator.successor``."""
        holder = self.holder
        if holder is None or not len(self.waiting) or self.recovering or self.policy.has_admission:
            return None
        at_s = boundary_s(holder, now_s)
        if holder.is_revoked and not holder.is_cancelled:
            winner = self._next_turn.best(at_s, holder)
            if winner is not holder:
                return winner.request
        last = self.policy.choose(at_s + holder.remaining_s, None)
        return None if last is None else last.request

    # --- what may happen to a request

    def check_newcomer(self, candidate: Candidate, now_s: float) -> None:
        """Raise if bounds or admission control keep it out; errors as of ``DeviceAllocator.submit``."""
        if self.holder is not None or self.grants_nobody:
            self.waiting.check_bounds(candidate.request)
        if self.policy.has_admission:
            self.waiting.check_admission(candidate, now_s, boundary_s(self.holder, now_s), self.competing_holder)

    def enter(self, candidate: Candidate, now_s: float) -> Decision:
        """Let a request in that was checked before."""
        self.candidates[candidate.request.request_id] = candidate
        if not self.exclusive and not self.recovering:
            return self.grant(candidate, now_s)
        if self.holder is None and not self.recovering and len(self.candidates) == 1:
            self._hold(candidate, now_s + self._handover_s)  # alone: there is nothing to decide
            if candidate.notes is not None:
                candidate.notes.reasons.append("alone")
            return Decision(grants=(candidate.request,))
        self.waiting.add(candidate)
        if candidate.notes is not None:
            holder = None if self.recovering else self.competing_holder
            candidate.notes.predicted_wait_s = self._next_turn.predicted_wait_s(candidate, holder, now_s)
        return self.decide(now_s)

    def enter_holding(self, candidate: Candidate, now_s: float) -> Decision:
        """Let a request in that runs already."""
        self.candidates[candidate.request.request_id] = candidate
        self._hold(candidate, now_s)
        return self.decide(now_s)

    def leave(self, candidate: Candidate) -> None:
        """A waiting request is gone."""
        self.waiting.remove(candidate)
        del self.candidates[candidate.request.request_id]

    def drop(self, holder: Candidate) -> None:
        """A holder is gone."""
        self._stop_holding(holder)
        del self.candidates[holder.request.request_id]

    def wait_again(self, holder: Candidate) -> None:
        """A holder, at a boundary, gives the device up and waits."""
        self._stop_holding(holder)
        self.waiting.add(holder)

    def account(self, holder: Candidate, until_s: float) -> None:
        """Tell the policy what the holder used of the device since its last boundary."""
        if self.exclusive and until_s > holder.block_began_s:
            self.policy.progress(holder, until_s - holder.block_began_s, until_s)

    # --- what follows

    def decide(self, now_s: float, successor: RequestId | None = None) -> Decision:
        """What follows from the state: grants if the device is free, else revoke or keep. Changes the state so."""
        if self.grants_nobody:
            return NOTHING_TO_DO
        if not self.exclusive:
            return self._grant_all(now_s)
        holder = self.holder
        refused = self._refuse(now_s) if self.policy.has_admission else ()
        if holder is None:
            if not len(self.waiting):
                return Decision(refused=refused) if refused else NOTHING_TO_DO
            winner = self.policy.choose(now_s, None) if successor is None else self.candidates[successor]
            assert winner is not None
            return self.grant(winner, now_s, refused)
        if holder.is_cancelled or (holder.is_in_last_block and not holder.is_revoked):
            return Decision(refused=refused) if refused else NOTHING_TO_DO
        should_go = len(self.waiting) > 0 and self._next_turn.is_of_another(holder, now_s)
        was_revoked, holder.is_revoked = holder.is_revoked, should_go
        look_again_s = None if should_go else self._look_again_s(holder, now_s)
        if should_go is was_revoked and look_again_s is None and not refused:
            return NOTHING_TO_DO
        request_id = holder.request.request_id
        return Decision(
            revoke=request_id if should_go and not was_revoked else None,
            keep=request_id if was_revoked and not should_go else None,
            refused=refused,
            look_again_s=look_again_s,
        )

    def decide_at_boundary(self, holder: Candidate, now_s: float, successor: RequestId | None) -> Decision:
        """The same where the holder competes with those that wait, in one step."""
        if not self.exclusive:
            holder.run_from(holder.blocks_done, now_s)
            return Decision(grants=(holder.request,))
        if self.grants_nobody:
            self.wait_again(holder)
            return NOTHING_TO_DO
        winner = self._next_turn.best(now_s, holder) if successor is None else self.candidates[successor]
        if winner is not holder:
            self.wait_again(holder)
            return self.grant(winner, now_s)
        holder.is_revoked = False
        holder.run_from(holder.blocks_done, now_s)
        return Decision(grants=(holder.request,), look_again_s=self._look_again_s(holder, now_s))

    def grant(self, winner: Candidate, now_s: float, refused: tuple[Refusal, ...] = ()) -> Decision:
        """Give the device, which is free, to a request."""
        if self.exclusive:
            if winner.notes is not None:
                reason = self.policy.reason(winner, now_s) if len(self.waiting) > 1 else "alone"
                winner.notes.reasons.append(reason)
            self.waiting.remove(winner)
        self._hold(winner, now_s + self._handover_s)
        look_again_s = self._look_again_s(winner, now_s) if self.exclusive else None
        return Decision(grants=(winner.request,), refused=refused, look_again_s=look_again_s)

    def _grant_all(self, now_s: float) -> Decision:
        """Non-exclusive mode after a recovery: all that wait run."""
        waiting = self.waiting.in_arrival_order()
        if not waiting:
            return NOTHING_TO_DO
        for candidate in waiting:
            self.waiting.remove(candidate)
            self._hold(candidate, now_s)
        return Decision(grants=tuple(candidate.request for candidate in waiting))

    def _look_again_s(self, holder: Candidate, now_s: float) -> float | None:
        return self._next_turn.look_again_s(holder, now_s) if len(self.waiting) else None

    def _refuse(self, now_s: float) -> tuple[Refusal, ...]:
        """Give up the waiting requests that admission control names."""
        refused = self.waiting.refuse(now_s, boundary_s(self.holder, now_s), self.competing_holder)
        for refusal in refused:
            del self.candidates[refusal.request.request_id]
        return refused

    def _hold(self, candidate: Candidate, began_s: float) -> None:
        candidate.holding_since_s = began_s
        candidate.run_from(candidate.blocks_done, began_s)
        self.holders[candidate.request.request_id] = candidate
        if self.exclusive:
            assert self.holder is None
            self.holder = candidate

    def _stop_holding(self, holder: Candidate) -> None:
        holder.holding_since_s = None
        holder.is_revoked = False
        holder.stop_at(min(holder.blocks_done, holder.num_blocks))
        del self.holders[holder.request.request_id]
        self.holder = self._only_holder()

    def _only_holder(self) -> Candidate | None:
        return next(iter(self.holders.values())) if self.exclusive and len(self.holders) == 1 else None
