"""An order with priority levels and the starvation bound around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.notes import Reason
from deployments.scheduling.policies.options import StarvationOptions
from deployments.scheduling.policies.policy import Order
from deployments.scheduling.policies.starvation import StarvationGuard

_MAX_EMPTY_LEVELS = 16

OrderT = TypeVar("OrderT", bound=Order)


class _Level(Generic[OrderT]):
    """The waiting requests of one priority."""

    __slots__ = ("guard", "order")

    def __init__(self, order: OrderT, guard: StarvationGuard | None) -> None:
        self.order = order
        self.guard = guard


class Levels(Generic[OrderT]):
    """Chooses in the highest level that has anybody: its head if overdue and allowed, else by its order.

    With ``promote_across_priorities`` one guard serves all levels and is asked before them. The cost is that of the
    order and of the guard (O(log n)), plus the number of levels in use.

    Args:
        make_order: Makes the order of one level.
        options: Starvation bound and what promotion may do.
    """

    __slots__ = ("_common_guard", "_levels", "_make_order", "_options", "_priorities", "has_admission")

    def __init__(self, make_order: Callable[[], OrderT], options: StarvationOptions) -> None:
        self.has_admission = False
        self._make_order = make_order
        self._options = options
        self._levels: dict[int, _Level[OrderT]] = {}
        self._priorities: list[int] = []
        self._common_guard = self._make_guard() if options.promote_across_priorities else None

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait."""
        level = self._level(candidate.priority)
        level.order.add(candidate)
        if level.guard is not None:
            level.guard.add(candidate)

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more."""
        level = self._levels[candidate.priority]
        level.order.remove(candidate)
        if level.guard is not None:
            level.guard.remove(candidate)

    def progress(self, candidate: Candidate, ran_s: float, now_s: float) -> None:
        """The holder had the device for another ``ran_s`` seconds, until ``now_s``."""
        guard = self._guard(candidate.priority)
        if guard is not None:
            guard.progress(candidate, ran_s, now_s)

    def choose(self, now_s: float, holder: Candidate | None) -> Candidate | None:
        """Who should hold the device at ``now_s``, one of the waiting or the holder; None only if there is nobody."""
        if self._common_guard is not None:
            head = self._head(self._common_guard, now_s, holder)
            if head is not None:
                return head
        level = self._highest_waiting()
        if holder is not None:
            if level is None or holder.priority < level:
                return holder
            if holder.priority > level:
                holder = None
        elif level is None:
            return None
        chosen = self._levels[level]
        if self._common_guard is None and chosen.guard is not None:
            head = self._head(chosen.guard, now_s, holder)
            if head is not None:
                return head
        return chosen.order.choose(now_s, holder)

    def is_worth(self, challenger: Candidate, holder: Candidate, now_s: float, cost_s: float) -> bool:
        """True for a higher level and for a promoted request; otherwise the order says."""
        if challenger.priority < holder.priority or self._is_promoted(challenger, now_s):
            return True
        return self._levels[challenger.priority].order.is_worth(challenger, holder, now_s, cost_s)

    def reason(self, candidate: Candidate, now_s: float) -> Reason:
        """Why this waiting request is chosen at ``now_s``: promoted, late, or in order."""
        if self._is_promoted(candidate, now_s):
            return "promoted"
        return "late" if self._levels[candidate.priority].order.is_late(candidate, now_s) else "order"

    def _is_promoted(self, candidate: Candidate, now_s: float) -> bool:
        guard = self._guard(candidate.priority)
        return guard is not None and self._head(guard, now_s, None) is candidate

    def next_change_s(self, now_s: float, holder: Candidate | None) -> float | None:
        """From when on ``choose`` may answer otherwise although nothing happened but time; None: never."""
        level = self._highest_waiting()
        if level is None:
            return None
        if self._common_guard is not None:
            change_s = self._common_guard.next_change_s(now_s, holder)
        else:
            if holder is not None and holder.priority != level:
                return None if holder.priority < level else now_s
            guard = self._levels[level].guard
            change_s = None if guard is None else guard.next_change_s(now_s, holder)
        return now_s if self._levels[level].order.changes_with_time else change_s

    def predicted_wait_s(self, candidate: Candidate, now_s: float, holder: Candidate | None) -> float | None:
        """Everybody may come in."""
        return None

    def refuse(self, now_s: float, holder: Candidate | None) -> tuple[Candidate, ...]:
        """Nobody is given up."""
        return ()

    @staticmethod
    def _head(guard: StarvationGuard, now_s: float, holder: Candidate | None) -> Candidate | None:
        return guard.head(now_s, holder) if guard.can_promote else None

    def _guard(self, priority: int) -> StarvationGuard | None:
        return self._common_guard if self._common_guard is not None else self._level(priority).guard

    def _make_guard(self) -> StarvationGuard | None:
        bound_s, bound_ratio = self._options.starvation_bound_s, self._options.starvation_bound_ratio
        if bound_s is None and bound_ratio is None:
            return None
        return StarvationGuard(bound_s, bound_ratio, self._options.promoted_share)

    def _highest_waiting(self) -> int | None:
        for priority in self._priorities:
            if len(self._levels[priority].order):
                return priority
        return None

    def _level(self, priority: int) -> _Level[OrderT]:
        level = self._levels.get(priority)
        if level is None:
            if len(self._levels) > _MAX_EMPTY_LEVELS:
                self._levels = {each: kept for each, kept in self._levels.items() if len(kept.order)}
            guard = self._common_guard if self._options.promote_across_priorities else self._make_guard()
            level = self._levels[priority] = _Level(self._make_order(), guard)
            self._priorities = sorted(self._levels)
        return level
