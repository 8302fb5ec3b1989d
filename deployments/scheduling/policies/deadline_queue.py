"""The waiting requests in deadline order, and how long all of them could wait and still be on time."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, islice
from math import inf
from operator import sub

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.policies.lazy_heap import LazyHeap
from deployments.scheduling.policies.on_time import deadline_key


def _latest_start_s(candidate: Candidate) -> float:
    return candidate.deadline_s - candidate.remaining_s


def _negative_latest_start_s(candidate: Candidate) -> float:
    return candidate.remaining_s - candidate.deadline_s


def _remaining_s(candidate: Candidate) -> float:
    return candidate.remaining_s


class DeadlineQueue:
    """Waiting requests, the hopeless ones apart.

    A request is hopeless at a moment if it would be late even if it ran at once. It is then longer than all that the
    walk of ``on_time_set`` keeps before it, so the walk would set aside itself and change nothing else.

    Slack is the time that all requests that are not hopeless can wait together. ``_slack_until_s`` bounds it from
    below: started at that moment, all of them are on time. It is kept up to date in O(1) by every change, and made
    exact in O(n) when the bound does not answer the question.
    """

    __slots__ = (
        "_by_latest_start",
        "_deadlines_s",
        "_hopeless",
        "_hopeless_by_start",
        "_keys",
        "_live",
        "_live_s",
        "_remaining_s",
        "_slack_until_s",
        "waiting_s",
    )

    def __init__(self) -> None:
        self._live: list[Candidate] = []
        self._keys: list[tuple[float, float, int]] = []
        self._deadlines_s: list[float] = []
        self._remaining_s: list[float] = []
        self._live_s = 0.0
        self._slack_until_s = inf
        self._by_latest_start = LazyHeap(_latest_start_s)
        self._hopeless = LazyHeap(_remaining_s)
        self._hopeless_by_start = LazyHeap(_negative_latest_start_s)
        self.waiting_s = 0.0

    def __len__(self) -> int:
        return len(self._live) + len(self._hopeless)

    @property
    def live(self) -> list[Candidate]:
        """Those not hopeless, in deadline order; as of the last ``move_to``, not to be changed."""
        return self._live

    @property
    def shortest_hopeless(self) -> Candidate | None:
        """The hopeless one that needs the device for the shortest time; as of the last ``move_to``."""
        return self._hopeless.first()

    def with_holder(self, holder: Candidate | None) -> list[Candidate]:
        """``live`` with the holder in its place. O(n)."""
        if holder is None:
            return self._live
        place = bisect_left(self._deadlines_s, holder.deadline_s)
        return [*self._live[:place], holder, *self._live[place:]]

    def hopeless(self) -> list[Candidate]:
        """All that are hopeless, as of the last ``move_to``. O(n)."""
        return self._hopeless.all()

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait."""
        self.waiting_s += candidate.remaining_s
        self._insert(candidate)

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more."""
        self.waiting_s -= candidate.remaining_s
        if candidate in self._hopeless:
            self._hopeless.discard(candidate)
            self._hopeless_by_start.discard(candidate)
        else:
            self._take_out(candidate)

    def move_to(self, now_s: float) -> None:
        """Let ``now_s`` be the moment: who is hopeless then? O(log n) for each that changes."""
        while (first := self._by_latest_start.first()) is not None and _latest_start_s(first) < now_s:
            self._take_out(first)
            self._hopeless.add(first)
            self._hopeless_by_start.add(first)
        while (last := self._hopeless_by_start.first()) is not None and _latest_start_s(last) >= now_s:
            self._hopeless.discard(last)
            self._hopeless_by_start.discard(last)
            self._insert(last)

    def has_slack(self, needed_s: float, now_s: float, holder: Candidate | None) -> bool:
        """True if at ``now_s`` all live ones and the holder can wait ``needed_s`` seconds and be on time.

        Args:
            needed_s: At least 0.
            now_s: The moment of the last ``move_to``.
            holder: Who has the device, if not hopeless.
        """
        if holder is None:
            if self._slack_until_s - now_s >= needed_s:
                return True
            self._slack_until_s = _slack_until(self._deadlines_s, self._remaining_s)
            return self._slack_until_s - now_s >= needed_s
        ahead_s = holder.remaining_s
        if self._deadlines_s and self._deadlines_s[0] < holder.deadline_s:
            ahead_s += self._live_s
        if (
            holder.deadline_s - now_s - ahead_s >= needed_s
            and self._slack_until_s - now_s - holder.remaining_s >= needed_s
        ):
            return True
        place = bisect_left(self._deadlines_s, holder.deadline_s)
        deadlines_s = [*self._deadlines_s[:place], holder.deadline_s, *self._deadlines_s[place:]]
        remaining_s = [*self._remaining_s[:place], holder.remaining_s, *self._remaining_s[place:]]
        self._slack_until_s = max(self._slack_until_s, slack_until_s := _slack_until(deadlines_s, remaining_s))
        return slack_until_s - now_s >= needed_s

    def _insert(self, candidate: Candidate) -> None:
        key = deadline_key(candidate)
        place = bisect_left(self._keys, key)
        self._live.insert(place, candidate)
        self._keys.insert(place, key)
        self._deadlines_s.insert(place, candidate.deadline_s)
        self._remaining_s.insert(place, candidate.remaining_s)
        self._by_latest_start.add(candidate)
        self._live_s += candidate.remaining_s
        self._slack_until_s = min(self._slack_until_s - candidate.remaining_s, candidate.deadline_s - self._live_s)

    def _take_out(self, candidate: Candidate) -> None:
        place = bisect_left(self._keys, deadline_key(candidate))
        del self._live[place]
        del self._keys[place]
        del self._deadlines_s[place]
        del self._remaining_s[place]
        self._by_latest_start.discard(candidate)
        if not self._live:
            self._live_s = 0.0
            self._slack_until_s = inf
            return
        self._live_s -= candidate.remaining_s
        if place == 0:  # all others waited for it
            self._slack_until_s += candidate.remaining_s


def _slack_until(deadlines_s: list[float], remaining_s: list[float]) -> float:
    """The latest start from which all are on time, in deadline order. O(n), in C."""
    ends_s = islice(accumulate(remaining_s, initial=0.0), 1, None)
    return min(map(sub, deadlines_s, ends_s), default=inf)
