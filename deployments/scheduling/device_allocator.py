"""Who holds the device: the state machine that decides, without clock, thread or socket.

A request is *waiting*, *holder*, or gone. Rules, in exclusive mode:

- Never two holders. Never idle while somebody waits, except while recovering.
- The next holder is chosen at the boundary (late binding). To yield and to compete again is one step, so nobody slips
  in between; on equal terms the running request goes on, then arrival order decides.
- In mid-block the policy is asked who should hold the device at the *predicted* boundary. If that is another, the
  holder is revoked; if the reason goes away before the boundary, it may keep the device.
- A cancelled holder is revoked whatever the policy says, and is never chosen again.

| event | waiting | holder | device free |
|---|---|---|---|
| submit | one more waits; revoke or keep the holder | | granted at once |
| progress | ignored | its block count moves | |
| yield_at_boundary | error | best of holder and waiting is granted | error |
| finish | error | gone; best waiting is granted | error |
| restate | has run some blocks; revoke or keep the holder | error | error |
| cancel | gone; revoke or keep the holder | revoked for good | |
| forget_owner | gone; revoke or keep the holder | gone at once; best waiting is granted | |
| announce | one more waits | becomes holder, error if there is one | becomes holder, or as submit |
| resume | | | best waiting is granted: recovery ends |
| reconfigure | revoke or keep the holder | | best waiting is granted |
| on_timer | revoke or keep the holder | | best waiting is granted |

While recovering nothing is granted and nobody is revoked. With ``exclusive=False`` every request is granted at once.
A method costs what the policy costs (see there) plus O(1); ``forget_owner``, ``waiting`` and ``snapshot`` are O(n).
Here are the events, checked and carried into the state; ``device_state.py`` decides what follows from them.
An illegal call raises and changes nothing. Times are monotonic seconds; a ``now_s`` before an earlier one is accepted
and nothing goes backwards because of it.
"""

from __future__ import annotations

from math import inf
from typing import Unpack

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.decision import NOTHING_TO_DO, Decision
from deployments.scheduling.device_state import DeviceState
from deployments.scheduling.errors import (
    DuplicateRequestError,
    ProgressError,
    TwoHoldersError,
    UnknownRequestError,
)
from deployments.scheduling.modes import Preemption
from deployments.scheduling.notes import Notes
from deployments.scheduling.policies.policy import Policy
from deployments.scheduling.request import Request, RequestId, check_block_times
from deployments.scheduling.rules import Rules
from deployments.scheduling.snapshot import Snapshot, view
from deployments.scheduling.waiting_room import Watcher

__all__ = ["Decision", "DeviceAllocator"]


class DeviceAllocator:
    """The turns on one device.

    Args:
        policy: Who should hold the device; a fresh object.
        exclusive: False: every request is granted at once (mode ``parallel``).
        preemption: When a holder is asked to give the device up: ``always`` where the policy prefers another, ``auto``
            where the gain also exceeds the cost, ``never``.
        max_waiting: Most requests that may wait; None: no bound.
        max_waiting_per_model: Most requests of one model that may wait; None: no bound.
        handover_s: Time lost when the device changes hands, in seconds, with what a boundary costs.
        recovering: True after a restart: nothing is granted until ``resume``.
        watcher: Is told who begins to wait and who waits no more; None: nobody is.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        exclusive: bool = True,
        preemption: Preemption = "always",
        max_waiting: int | None = None,
        max_waiting_per_model: int | None = None,
        handover_s: float = 0.0,
        recovering: bool = False,
        watcher: Watcher | None = None,
    ) -> None:
        rules: Rules = {
            "policy": policy,
            "exclusive": exclusive,
            "preemption": preemption,
            "max_waiting": max_waiting,
            "max_waiting_per_model": max_waiting_per_model,
        }
        self._state = DeviceState(rules, handover_s=handover_s, recovering=recovering, watcher=watcher)
        self._num_submitted = 0

    @property
    def holder(self) -> Request | None:
        """Who has the device; None if it is free, or in non-exclusive mode."""
        holder = self._state.holder
        return None if holder is None else holder.request

    @property
    def holders(self) -> tuple[Request, ...]:
        """All that run; at most one in exclusive mode."""
        return tuple(candidate.request for candidate in self._state.holders.values())

    @property
    def waiting(self) -> tuple[Request, ...]:
        """All that wait, in arrival order. O(n log n)."""
        return tuple(candidate.request for candidate in self._state.waiting.in_arrival_order())

    @property
    def num_waiting(self) -> int:
        """How many wait."""
        return len(self._state.waiting)

    @property
    def is_free(self) -> bool:
        """Whether anybody may have the device at once, without a decision about it."""
        state = self._state
        return state.exclusive and not state.recovering and not state.candidates and not state.policy.has_admission

    @property
    def is_idle(self) -> bool:
        """Whether nobody holds the device or waits for it."""
        return not self._state.candidates

    @property
    def running(self) -> tuple[Candidate, ...]:
        """All that run, with their progress; not to be changed."""
        return tuple(self._state.holders.values())

    def work_s(self, now_s: float) -> float:
        """Predicted run time of all that hold the device or wait for it, in seconds. O(number of holders)."""
        return self._state.work_s(now_s)

    def predicted_wait_s(self, request: Request, now_s: float, limit_s: float = inf) -> float:
        """How long a request would wait for its first turn if it came now and nothing else did, in seconds.

        Changes nothing. It is foreseen as in ``NextTurn.predicted_wait_s``, but behind 8 requests at most; where more
        go before, or it waits longer than ``limit_s``, the run time of all that are there is taken for it. Bounds and
        admission are not looked at.
        """
        newcomer = self._make_candidate(request, 0)  # with a number of its own: a policy may remember it for a while
        return self._state.predicted_wait_s(newcomer, now_s, limit_s)

    def blocks_done(self, request_id: RequestId) -> int:
        """Blocks that a request has finished, as far as the allocator knows.

        Raises:
            UnknownRequestError: If it neither waits nor runs.
        """
        return self._state.require(request_id).blocks_done

    def notes(self, request_id: RequestId) -> Notes | None:
        """What has been noted down about a request so far; None if it is not traced.

        Raises:
            UnknownRequestError: If it neither waits nor runs.
        """
        return self._state.require(request_id).notes

    def submit(self, request: Request, now_s: float) -> Decision:
        """A request wants the device. One that has run some blocks elsewhere is let in like one that yielded.

        Raises:
            DuplicateRequestError: If its identity waits or runs already.
            QueueFullError: If it would have to wait and too many do.
            ModelQueueFullError: The same for its model.
            RefusedError: If admission control is on and it could not be on time.
        """
        if request.request_id in self._state.candidates:
            raise DuplicateRequestError(request.request_id)
        candidate = self._make_candidate(request, request.first_block)
        if self._state.exclusive and not request.first_block:
            self._state.check_newcomer(candidate, now_s)
        return self._state.enter(candidate, now_s)

    def progress(self, request_id: RequestId, blocks_done: int, boundary_s: float, now_s: float) -> None:
        """Take in how far a holder is, as read from its shared page; decide nothing.

        News that is no news (an ended request, fewer blocks than known) is ignored.

        Args:
            request_id: The holder.
            blocks_done: Blocks it has finished.
            boundary_s: When the running block began, monotonic seconds.
            now_s: Current monotonic time.

        Raises:
            ProgressError: If there are not that many blocks.
        """
        holder = self._state.holders.get(request_id)
        if holder is None or blocks_done < holder.blocks_done:
            return
        if blocks_done > holder.stops_at:
            raise ProgressError(request_id, f"{blocks_done} blocks reported as finished of {holder.stops_at}")
        boundary_s = min(boundary_s, now_s)
        self._state.account(holder, boundary_s)
        holder.run_from(blocks_done, max(boundary_s, holder.block_began_s))

    def yield_at_boundary(
        self,
        request_id: RequestId,
        *,
        blocks_done: int,
        now_s: float,
        block_times_s: tuple[float, ...] | None = None,
        successor: RequestId | None = None,
    ) -> Decision:
        """Give the device up at a block boundary and compete for it again, as one step.

        Args:
            request_id: The holder.
            blocks_done: Blocks it has finished; at least one is left.
            now_s: Current monotonic time.
            block_times_s: New predictions for all its blocks, in seconds; None: the old ones hold.
            successor: What ``successor`` has answered since the last event, if that one has been told already.

        Returns:
            Who holds the device from now on: the same request if it is still the best. A cancelled holder ends here as
            if it had finished.

        Raises:
            NotHolderError: If ``request_id`` does not hold the device.
            ProgressError: If the blocks do not fit the request; one with all blocks done calls ``finish``.
            InvalidRequestError: If a predicted time is no number of at least 0.
        """
        holder = self._state.require_holder(request_id)
        if not holder.blocks_done <= blocks_done < holder.stops_at:
            raise ProgressError(
                request_id,
                f"yields after {blocks_done} blocks, possible are {holder.blocks_done} to {holder.stops_at - 1}",
            )
        if block_times_s is not None:
            if len(block_times_s) != holder.num_blocks:
                raise ProgressError(
                    request_id, f"{len(block_times_s)} block times for {holder.num_blocks} blocks, one each is needed"
                )
            check_block_times(request_id, block_times_s)
        self._state.account(holder, now_s)
        if holder.is_cancelled:
            self._state.drop(holder)
            return self._state.decide(now_s, successor)
        holder.stop_at(blocks_done)
        if block_times_s is not None:
            holder.set_block_times(block_times_s)
        return self._state.decide_at_boundary(holder, now_s, successor)

    def finish(self, request_id: RequestId, now_s: float, *, successor: RequestId | None = None) -> Decision:
        """A holder has run its last block, failed, or stopped because it was cancelled.

        Args:
            request_id: The holder.
            now_s: Current monotonic time.
            successor: What ``successor`` has answered since the last event, if that one has been told already.

        Raises:
            NotHolderError: If ``request_id`` does not hold the device.
        """
        holder = self._state.require_holder(request_id)
        self._state.account(holder, now_s)
        self._state.drop(holder)
        return self._state.decide(now_s, successor)

    def successor(self, now_s: float) -> Request | None:
        """Who gets the device when the holder gives it up, as far as one can tell now; changes nothing.

        With this answer at hand the shell tells the next holder first and the core afterwards. It holds until the next
        event, and was made for the predicted end of the turn. None: nobody waits, or whoever waits may be refused then.
        """
        return self._state.successor(now_s)

    def request(self, request_id: RequestId) -> Request | None:
        """The request, if it waits or runs."""
        candidate = self._state.candidates.get(request_id)
        return None if candidate is None else candidate.request

    def is_waiting(self, request_id: RequestId) -> bool:
        """Whether it waits for the device."""
        candidate = self._state.candidates.get(request_id)
        return candidate is not None and candidate.holding_since_s is None

    def restate(self, request_id: RequestId, *, blocks_done: int, now_s: float) -> Decision:
        """A request that waits has run some blocks all the same: its turn was over before the news of its beginning.

        Raises:
            UnknownRequestError: If it does not wait.
            ProgressError: If the blocks do not fit the request.
        """
        candidate = self._state.require(request_id)
        if candidate.holding_since_s is not None:
            raise UnknownRequestError(request_id)
        if not candidate.blocks_done <= blocks_done < candidate.stops_at:
            raise ProgressError(request_id, f"has run {blocks_done} blocks of {candidate.stops_at} and waits")
        self._state.waiting.remove(candidate)
        candidate.stop_at(blocks_done)
        self._state.waiting.add(candidate)
        return self._state.decide(now_s)

    def cancel(self, request_id: RequestId, now_s: float) -> Decision:
        """A waiting request leaves at once; a holder is asked to give the device up at its next boundary.

        Raises:
            UnknownRequestError: If it neither waits nor runs.
        """
        candidate = self._state.require(request_id)
        if candidate.holding_since_s is None:
            self._state.leave(candidate)
            return self._state.decide(now_s)
        if candidate.is_cancelled:
            return self._state.decide(now_s)
        candidate.is_cancelled = True
        was_revoked, candidate.is_revoked = candidate.is_revoked, True
        return NOTHING_TO_DO if was_revoked else Decision(revoke=request_id)

    def forget_owner(self, owner: str, now_s: float) -> Decision:
        """A connection is lost: what its replica holds is free at once, what it waits for is dropped. O(n)."""
        for candidate in [each for each in self._state.candidates.values() if each.request.owner == owner]:
            if candidate.holding_since_s is None:
                self._state.leave(candidate)
            else:
                self._state.account(candidate, now_s)
                self._state.drop(candidate)
        return self._state.decide(now_s)

    def announce(self, request: Request, *, blocks_done: int, is_holding: bool, now_s: float) -> Decision:
        """After a restart a replica says what it holds and what waits; queue bounds and admission do not apply again.

        Args:
            request: As it was submitted.
            blocks_done: Blocks it has finished.
            is_holding: True if it runs a block now.
            now_s: Current monotonic time.

        Raises:
            DuplicateRequestError: If its identity waits or runs already.
            ProgressError: If there are not that many blocks.
            TwoHoldersError: If it holds the device and another does too (exclusive mode).
        """
        if request.request_id in self._state.candidates:
            raise DuplicateRequestError(request.request_id)
        if not request.first_block <= blocks_done < request.stops_at + is_holding:
            raise ProgressError(
                request.request_id,
                f"announced with {blocks_done} blocks done, it runs {request.first_block} to {request.stops_at - 1}",
            )
        holder = self.holder
        if is_holding and self._state.exclusive and holder is not None:
            raise TwoHoldersError(request.request_id, holder.request_id)
        candidate = self._make_candidate(request, blocks_done)
        return self._state.enter_holding(candidate, now_s) if is_holding else self._state.enter(candidate, now_s)

    def resume(self, now_s: float) -> Decision:
        """The recovery window has ended: grants start."""
        self._state.recovering = False
        return self._state.decide(now_s)

    def reconfigure(self, *, now_s: float, **rules: Unpack[Rules]) -> Decision:
        """Other rules from now on (see the class), for those that wait or run as well; nobody is refused. O(n log n).

        Where a device becomes exclusive while several hold it, they run on, and nothing is granted until one is left.
        """
        self._state.change_rules(rules)
        return self._state.decide(now_s)

    def on_timer(self, now_s: float) -> Decision:
        """The time of ``look_again_s`` has come; harmless at any other time."""
        return self._state.decide(now_s)

    def snapshot(self, now_s: float) -> Snapshot:
        """Everything a live page shows. O(n log n)."""
        waiting = self._state.waiting.in_arrival_order()
        return Snapshot(
            now_s=now_s,
            is_recovering=self._state.recovering,
            holders=tuple(view(candidate, now_s) for candidate in self._state.holders.values()),
            waiting=tuple(view(candidate, now_s) for candidate in waiting),
            waiting_s=self._state.waiting.waiting_s,
        )

    def _make_candidate(self, request: Request, blocks_done: int) -> Candidate:
        """A candidate with a number of its own, also if it is refused afterwards."""
        self._num_submitted += 1
        return Candidate(request, self._num_submitted, blocks_done=blocks_done)
