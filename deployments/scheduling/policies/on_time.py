"""The largest set of requests that can all be on time (Moore 1968, with Hodgson)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from deployments.scheduling.candidate import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTimeSet:
    """Who can be on time.

    Attributes:
        kept: The largest set that can all be on time, in deadline order.
        aside: The others, in the order in which they were set aside.
        start_s: When the first of them can run, monotonic seconds.
        least_excess_s: With a start earlier by this or more, another might be kept; infinity if nobody is aside.
    """

    kept: list[Candidate]
    aside: list[Candidate]
    start_s: float
    least_excess_s: float

    def slack_s(self) -> float:
        """How long all that are kept can wait together, in seconds; infinity if nobody is kept. O(n)."""
        slack_s = inf
        end_s = self.start_s
        for candidate in self.kept:
            end_s += candidate.remaining_s
            slack_s = min(slack_s, candidate.deadline_s - end_s)
        return slack_s


def deadline_key(candidate: Candidate) -> tuple[float, float, int]:
    """What ``deadline_order`` sorts the waiting by."""
    return candidate.deadline_s, candidate.arrival_s, candidate.sequence


def deadline_order(waiting: Iterable[Candidate], holder: Candidate | None) -> list[Candidate]:
    """All of them by deadline; on equal deadlines the holder, then arrival order. O(n log n)."""
    ordered = sorted(waiting, key=deadline_key)
    if holder is not None:
        place = 0
        while place < len(ordered) and ordered[place].deadline_s < holder.deadline_s:
            place += 1
        ordered.insert(place, holder)
    return ordered


def shortness_key(candidate: Candidate, holder: Candidate | None) -> tuple[float, bool, float, int]:
    """Who is shorter; on equal times the holder, then who arrived first."""
    return candidate.remaining_s, candidate is not holder, candidate.arrival_s, candidate.sequence


def on_time_set(ordered: Sequence[Candidate], start_s: float, holder: Candidate | None) -> OnTimeSet:
    """Who is kept and who has to be late, so that as many as possible are on time.

    Walk in deadline order adding up remaining time; whenever the sum passes a deadline, set aside the longest remaining
    request seen so far (on equal times the last that arrived, the holder last of all). O(n log n).

    Args:
        ordered: By deadline; the order on equal deadlines makes no difference.
        start_s: When the first of them can run, monotonic seconds.
        holder: Who has the device, if it is among them.
    """
    aside: list[Candidate] = []
    longest: list[tuple[float, float, int, Candidate]] = []
    least_excess_s = inf
    end_s = start_s
    for candidate in ordered:
        remaining_s = candidate.remaining_s
        end_s += remaining_s
        arrival_s = inf if candidate is holder else -candidate.arrival_s
        heappush(longest, (-remaining_s, arrival_s, -candidate.sequence, candidate))
        if end_s > candidate.deadline_s:
            least_excess_s = min(least_excess_s, end_s - candidate.deadline_s)
            late = heappop(longest)[3]
            end_s -= late.remaining_s
            aside.append(late)
    late_ones = {candidate.sequence for candidate in aside}
    kept = [candidate for candidate in ordered if candidate.sequence not in late_ones]
    return OnTimeSet(kept=kept, aside=aside, start_s=start_s, least_excess_s=least_excess_s)
