"""The starvation bound: who waited too long comes first, for a stated share of the device.

A request becomes overdue at arrival + bound, the bound being a time, or a multiple of its isolated time, or the smaller
of both. The head, which became overdue first, is chosen before the order is asked, while the ledger allows it. The
ledger is the head's debt in seconds of device time:

| the holder ran for r seconds | debt before | debt after |
|---|---|---|
| the holder is the head | at most 0 | + r x (1 - share) |
| the holder is the head (the order chose it on its merits) | above 0 | the same |
| the holder is another | any | - r x share, not below 0 |

The head is put first only without debt, so while heads wait they get the share of the device, and through promotion
alone not more than that and one block. With share 1 the head always comes first. What follows for a request: with S the
run time of all requests that become overdue before it plus its own, and B the longest block, it has ended at the latest
(S + 2 B) / share + 2 B after it became overdue, where a hand-over costs nothing and no higher level uses the device.
"""

from __future__ import annotations

from math import inf

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.policies.lazy_heap import LazyHeap

_DEBT_ROUNDING_S = 1e-9


class StarvationGuard:
    """The overdue requests among the waiting and the ledger of what they took.

    Args:
        bound_s: Age in seconds from which on a request is overdue; None: no such bound.
        bound_ratio: The same as a multiple of its isolated time; None: no such bound.
        share: Share of the device for overdue requests, above 0 and at most 1.
    """

    __slots__ = ("_bound_ratio", "_bound_s", "_by_due", "_debt_s", "_share")

    def __init__(self, bound_s: float | None, bound_ratio: float | None, share: float) -> None:
        self._bound_s = inf if bound_s is None else bound_s
        self._bound_ratio = inf if bound_ratio is None else bound_ratio
        self._share = share
        self._by_due = LazyHeap(self.due_s)
        self._debt_s = 0.0

    @property
    def can_promote(self) -> bool:
        """True without debt."""
        return self._debt_s <= _DEBT_ROUNDING_S

    def due_s(self, candidate: Candidate) -> float:
        """When the candidate becomes overdue, monotonic seconds."""
        return candidate.arrival_s + min(self._bound_s, self._bound_ratio * candidate.isolated_s)

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait. O(log n)."""
        self._by_due.add(candidate)

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more. O(1), amortised."""
        self._by_due.discard(candidate)

    def head(self, now_s: float, holder: Candidate | None) -> Candidate | None:
        """Who became overdue first, the holder included; None if nobody is overdue."""
        first = self._by_due.first()
        if holder is not None and (first is None or self._rank(holder) < self._rank(first)):
            first = holder
        return first if first is not None and self.due_s(first) <= now_s else None

    def progress(self, holder: Candidate, ran_s: float, now_s: float) -> None:
        """The holder ran for ``ran_s`` seconds until ``now_s``: keep the ledger."""
        if self.head(now_s, holder) is not holder:
            if self._debt_s:
                self._debt_s = max(0.0, self._debt_s - ran_s * self._share)
        elif self.can_promote:
            self._debt_s += ran_s * (1.0 - self._share)

    def next_change_s(self, now_s: float, holder: Candidate | None) -> float | None:
        """When a request becomes overdue; ``now_s`` if one is, as then the ledger changes block by block."""
        first = self._by_due.first()
        if first is None:
            return None
        if holder is not None and self.due_s(holder) <= now_s:
            return now_s
        return max(now_s, self.due_s(first))

    def _rank(self, candidate: Candidate) -> tuple[float, float, int]:
        return self.due_s(candidate), candidate.arrival_s, candidate.sequence
