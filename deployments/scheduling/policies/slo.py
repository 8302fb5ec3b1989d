"""``slo``: the fewest late requests.

Of the requests that wait or run, the largest set that can be on time is kept (``on_time.set_aside``); its earliest
deadline holds the device. The others run when nobody can be on time any more, shortest first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.policies.gain import lowers_ratio_sum
from deployments.scheduling.policies.levels import Levels
from deployments.scheduling.policies.on_time import deadline_key, deadline_order, set_aside
from deployments.scheduling.policies.options import SloOptions


def should_hold(waiting: Sequence[Candidate], holder: Candidate | None, now_s: float) -> Candidate | None:
    """The earliest deadline of those kept; without any, the shortest; on equal terms the holder, then arrival."""
    ordered = deadline_order(waiting, holder)
    aside = set_aside(ordered, now_s, holder)
    for candidate in ordered:
        if candidate not in aside:
            return candidate
    return min(
        aside, key=lambda each: (each.remaining_s, each is not holder, each.arrival_s, each.sequence), default=None
    )


class Slo:
    """``should_hold`` with the waiting requests kept in deadline order."""

    __slots__ = ("_ordered", "waiting_s")

    changes_with_time = True

    def __init__(self) -> None:
        self._ordered: list[Candidate] = []
        self.waiting_s = 0.0

    def __len__(self) -> int:
        return len(self._ordered)

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait."""
        insort(self._ordered, candidate, key=deadline_key)
        self.waiting_s += candidate.remaining_s

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more."""
        del self._ordered[bisect_left(self._ordered, deadline_key(candidate), key=deadline_key)]
        self.waiting_s -= candidate.remaining_s

    def choose(self, now_s: float, holder: Candidate | None) -> Candidate | None:
        """Who should hold the device at ``now_s``; None if there is nobody."""
        return should_hold(self._ordered, holder, now_s)

    def late_ones(self, now_s: float, holder: Candidate | None) -> list[Candidate]:
        """Those set aside at ``now_s``."""
        return set_aside(deadline_order(self._ordered, holder), now_s, holder)

    def is_worth(self, challenger: Candidate, holder: Candidate, now_s: float, cost_s: float) -> bool:
        """True if the challenger would be late behind the holder and is not before it, or if the ratios gain."""
        end_s = now_s + cost_s + challenger.remaining_s
        if end_s <= challenger.deadline_s < end_s + holder.remaining_s:
            return True
        return lowers_ratio_sum(challenger, holder, cost_s)


class SloLevels(Levels[Slo]):
    """``Levels`` with admission control."""

    __slots__ = ("_admission",)

    def __init__(self, options: SloOptions) -> None:
        super().__init__(Slo, options)
        self._admission = options.admission

    def predicted_wait_s(self, candidate: Candidate, now_s: float, holder: Candidate | None) -> float | None:
        """None if the candidate may come in; otherwise how long it would wait for its first turn, in seconds."""
        if self._admission == "off":
            return None
        start_s = now_s + self._ahead_s(candidate.priority, holder)
        same_level = holder if holder is not None and holder.priority == candidate.priority else None
        order = self._level(candidate.priority).order
        order.add(candidate)
        aside = order.late_ones(start_s, same_level)
        order.remove(candidate)
        if not aside or (self._admission == "anyone_waiting" and candidate not in aside):
            return None
        return start_s - now_s + order.waiting_s + (0.0 if same_level is None else same_level.remaining_s)

    def refuse(self, now_s: float, holder: Candidate | None) -> tuple[Candidate, ...]:
        """Waiting requests that cannot be on time any more."""
        if self._admission != "anyone_waiting":
            return ()
        refused: list[Candidate] = []
        for priority in self._priorities:
            same_level = holder if holder is not None and holder.priority == priority else None
            start_s = now_s + self._ahead_s(priority, holder)
            late = self._levels[priority].order.late_ones(start_s, same_level)
            refused.extend(candidate for candidate in late if candidate is not holder)
        return tuple(refused)

    def _ahead_s(self, priority: int, holder: Candidate | None) -> float:
        """Run time of all that go before this level, in seconds."""
        ahead_s = sum(self._levels[each].order.waiting_s for each in self._priorities if each < priority)
        return ahead_s + (holder.remaining_s if holder is not None and holder.priority < priority else 0.0)


def make_slo(options: SloOptions) -> SloLevels:
    """The policy; within a level ``should_hold`` decides."""
    return SloLevels(options)
