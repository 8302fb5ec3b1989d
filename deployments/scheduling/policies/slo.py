"""``slo``: the fewest late requests, and the late ones not forgotten.

Of the requests that wait or run, the largest set that can be on time is kept (``on_time_set``); its earliest deadline
holds the device. Of those set aside the shortest goes first, and it runs

- when nobody can be on time any more, or
- while all that are kept can wait for the whole of it, and for ``late_reserve`` x its isolated time more.

The second rule shortens the tail at the price of few violations: the reserve is for requests that are still to come.
``late_reserve: null`` switches it off. Figures: ``docs/policies.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.policies.gain import lowers_ratio_sum
from deployments.scheduling.policies.levels import Levels
from deployments.scheduling.policies.on_time import deadline_order, on_time_set, shortness_key
from deployments.scheduling.policies.on_time_queue import OnTimeQueue, latest_start_s
from deployments.scheduling.policies.options import SloOptions


def should_hold(
    waiting: Sequence[Candidate], holder: Candidate | None, now_s: float, late_reserve: float | None
) -> Candidate | None:
    """Who should hold the device by the rules above; on equal terms the holder, then arrival order. O(n log n)."""
    on_time = on_time_set(deadline_order(waiting, holder), now_s, holder)
    late = min(on_time.aside, key=lambda each: shortness_key(each, holder), default=None)
    if not on_time.kept:
        return late
    if late is not None and late_reserve is not None and on_time.slack_s() >= _needed_s(late, late_reserve):
        return late
    return on_time.kept[0]


def _hopeless(holder: Candidate | None, now_s: float) -> Candidate | None:
    """The holder, if it cannot be on time any more."""
    return holder if holder is not None and now_s > latest_start_s(holder) else None


def _needed_s(late: Candidate, late_reserve: float) -> float:
    return late.remaining_s + late_reserve * late.isolated_s


class Slo:
    """``should_hold`` kept up to date, at the cost of ``OnTimeQueue``: O(log n) where the set of those on time stays.

    Args:
        late_reserve: See the module.
    """

    __slots__ = ("_late_reserve", "_queue")

    changes_with_time = True

    def __init__(self, late_reserve: float | None) -> None:
        self._late_reserve = late_reserve
        self._queue = OnTimeQueue()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def waiting_s(self) -> float:
        """Remaining time of all that wait, in seconds."""
        return self._queue.waiting_s

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait."""
        self._queue.add(candidate)

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more."""
        self._queue.remove(candidate)

    def choose(self, now_s: float, holder: Candidate | None) -> Candidate | None:
        """Who should hold the device at ``now_s``; None if there is nobody."""
        queue = self._queue
        hopeless = _hopeless(holder, now_s)
        queue.settle(now_s, holder if hopeless is None else None)
        late = queue.shortest_late()
        if hopeless is not None and (late is None or hopeless.remaining_s <= late.remaining_s):
            late = hopeless
        first = queue.first()
        if first is None:
            return late
        reserve = self._late_reserve
        if late is not None and reserve is not None and queue.has_slack(_needed_s(late, reserve), now_s):
            return late
        return first

    def late_ones(self, now_s: float, holder: Candidate | None) -> list[Candidate]:
        """Those that cannot be on time at ``now_s``. O(n)."""
        hopeless = _hopeless(holder, now_s)
        self._queue.settle(now_s, holder if hopeless is None else None)
        late = self._queue.late()
        return late if hopeless is None else [*late, hopeless]

    def is_late(self, candidate: Candidate, now_s: float) -> bool:
        """True if it cannot be on time. O(n)."""
        return candidate in self.late_ones(now_s, None)

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
        super().__init__(lambda: Slo(options.late_reserve), options)
        self._admission = options.admission
        self.has_admission = options.admission != "off"

    def predicted_wait_s(self, candidate: Candidate, now_s: float, holder: Candidate | None) -> float | None:
        """None if the candidate may come in; otherwise how long it would wait for its first turn, in seconds."""
        if not self.has_admission:
            return None
        start_s = now_s + self._ahead_s(candidate.priority, holder)
        same_level = holder if holder is not None and holder.priority == candidate.priority else None
        order = self._level(candidate.priority).order
        num_late = len(order.late_ones(start_s, same_level))
        order.add(candidate)
        late = order.late_ones(start_s, same_level)
        order.remove(candidate)
        if len(late) <= num_late or (self._admission == "anyone_waiting" and candidate not in late):
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
