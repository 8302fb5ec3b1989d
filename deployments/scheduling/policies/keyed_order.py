"""Orders in which a number per request decides, and the number stays while it waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.policies.gain import lowers_ratio_sum
from deployments.scheduling.policies.lazy_heap import LazyHeap


def smallest_key(
    waiting: Sequence[Candidate],
    holder: Candidate | None,
    key: Callable[[Candidate], float],
    *,
    is_preemptive: bool,
) -> Candidate | None:
    """Who should hold the device: the smallest key; on equal keys the holder, then arrival order. O(n).

    Args:
        waiting: Who waits, in any order.
        holder: Who runs.
        key: The number that decides.
        is_preemptive: False where a holder runs to its end whatever waits.
    """
    if holder is not None and not is_preemptive:
        return holder
    first = min(waiting, key=lambda each: (key(each), each.arrival_s, each.sequence), default=None)
    if holder is None or (first is not None and key(first) < key(holder)):
        return first
    return holder


class KeyedOrder:
    """``smallest_key`` kept up to date; every operation is O(log n).

    Args:
        key: The number that decides, smallest first.
        is_preemptive: False where a holder runs to its end whatever waits.
    """

    __slots__ = ("_heap", "_is_preemptive", "_key")

    changes_with_time = False

    def __init__(self, key: Callable[[Candidate], float], *, is_preemptive: bool) -> None:
        self._key = key
        self._is_preemptive = is_preemptive
        self._heap = LazyHeap(key)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait."""
        self._heap.add(candidate)

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more."""
        self._heap.discard(candidate)

    def choose(self, now_s: float, holder: Candidate | None) -> Candidate | None:
        """Who should hold the device at ``now_s``; None if there is nobody."""
        if holder is None:
            return self._heap.first()
        if not self._is_preemptive:
            return holder
        first = self._heap.first()
        return first if first is not None and self._key(first) < self._key(holder) else holder

    def is_worth(self, challenger: Candidate, holder: Candidate, now_s: float, cost_s: float) -> bool:
        """True if a hand-over that costs ``cost_s`` lowers the sum of response ratios."""
        return lowers_ratio_sum(challenger, holder, cost_s)

    def is_late(self, candidate: Candidate, now_s: float) -> bool:
        """Nobody is set aside."""
        return False
