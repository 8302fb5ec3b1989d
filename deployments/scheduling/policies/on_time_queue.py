"""The largest set of requests that can be on time, kept up to date while requests come, run and go.

`on_time_set` says what is kept: it equals what a greedy choice gives that takes the requests from the shortest to the
longest (on equal times the holder first, then arrival order) and keeps each with which all kept so far are on time.
From that follows when the set stays as it is, with `s` the start of the first of the kept:

| what happens | kept and aside stay right for |
|---|---|
| time passes | every `s` in (`after`, `until`]: later the kept would fail, earlier one aside would fit |
| one of the kept runs r seconds, or is gone | `after` + r; `until` + r if it is the first: all others wait for it |
| a request comes and all that are kept can wait for it | the same `after`, `until` as that request says |
| one that is aside is gone | the same |
| the kept fail at a request v | the longest up to v goes aside, unless a longer one aside is due after v: it may fit |

Anything else makes `on_time_set` walk anew over those that are not hopeless.

A request is hopeless at a moment if it would be late even if it ran at once. It is then longer than all that the walk
keeps before it, so the walk would set aside itself and change nothing else; it is kept out of the walk.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, islice
from math import inf
from operator import sub

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.policies.lazy_heap import LazyHeap
from deployments.scheduling.policies.on_time import deadline_key, on_time_set, shortness_key

_MAX_REPAIRS = 5


def latest_start_s(candidate: Candidate) -> float:
    """The latest start from which it is on time, monotonic seconds."""
    return candidate.deadline_s - candidate.remaining_s


def _negative_latest_start_s(candidate: Candidate) -> float:
    return candidate.remaining_s - candidate.deadline_s


def _remaining_s(candidate: Candidate) -> float:
    return candidate.remaining_s


class OnTimeQueue:
    """Waiting requests and the holder: who is kept, who is aside, who is hopeless; as of the last ``settle``.

    A request that waits no more stays a member until the next ``settle`` says whether it holds the device.
    """

    __slots__ = (
        "_after_s",
        "_aside",
        "_by_latest_start",
        "_deadlines_s",
        "_holder",
        "_hopeless",
        "_hopeless_by_start",
        "_kept",
        "_kept_s",
        "_keys",
        "_num_waiting",
        "_remaining_s",
        "_tightest",
        "_until_s",
        "waiting_s",
    )

    def __init__(self) -> None:
        self._kept: list[Candidate] = []  # these four in deadline order
        self._keys: list[tuple[float, float, int]] = []
        self._deadlines_s: list[float] = []
        self._remaining_s: list[float] = []
        self._kept_s = 0.0
        self._aside = LazyHeap(_remaining_s)
        self._by_latest_start = LazyHeap(latest_start_s)
        self._hopeless = LazyHeap(_remaining_s)
        self._hopeless_by_start = LazyHeap(_negative_latest_start_s)
        self._holder: Candidate | None = None
        self._num_waiting = 0
        self._after_s = -inf
        self._until_s = inf  # never more than the truth
        self._tightest: Candidate | None = None  # who sets ``_until_s``; None where that is only a bound
        self.waiting_s = 0.0

    def __len__(self) -> int:
        return self._num_waiting

    def first(self) -> Candidate | None:
        """Whose deadline is the earliest among the kept; on equal deadlines the holder's."""
        if not self._kept:
            return None
        first, holder = self._kept[0], self._holder
        if holder is None or holder.deadline_s > first.deadline_s or holder in self._aside:
            return first
        return holder

    def shortest_late(self) -> Candidate | None:
        """The shortest of those aside and those hopeless; on equal times the holder, then who arrived first."""
        late = [each for each in (self._aside.first(), self._hopeless.first()) if each is not None]
        holder = self._holder
        if holder is not None and holder in self._aside:
            late.append(holder)
        return min(late, key=lambda each: shortness_key(each, holder), default=None)

    def late(self) -> list[Candidate]:
        """All that cannot be on time. O(n)."""
        return self._hopeless.all() + self._aside.all()

    def has_slack(self, needed_s: float, start_s: float) -> bool:
        """True if all that are kept can wait ``needed_s`` seconds from ``start_s`` on and be on time."""
        if start_s + needed_s > self._until_s and self._tightest is None:
            self._measure_until()
        return start_s + needed_s <= self._until_s

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait."""
        self._num_waiting += 1
        self.waiting_s += candidate.remaining_s
        if candidate is self._holder:  # a member already: the holder yields
            self._holder = None
            if self._runs_on(candidate):
                if any(each.remaining_s == candidate.remaining_s for each in self._aside.all()):
                    self._after_s = inf  # the yielding one comes behind others of equal time now
                self._by_latest_start.add(candidate)
                return
            self._take_out(candidate)
        self._insert(candidate)
        self._by_latest_start.add(candidate)

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more: it is granted the device, or gone."""
        self._num_waiting -= 1
        self.waiting_s -= candidate.remaining_s
        if candidate in self._hopeless:
            self._hopeless.discard(candidate)
            self._hopeless_by_start.discard(candidate)
            return
        self._by_latest_start.discard(candidate)
        if candidate in self._aside or self._holder is not None:
            self._take_out(candidate)
        else:
            self._holder = candidate

    def settle(self, start_s: float, holder: Candidate | None) -> None:
        """Bring kept, aside and hopeless up to date for ``start_s``.

        Args:
            start_s: When the first can run, monotonic seconds.
            holder: Who has the device, unless hopeless.
        """
        self._sort_out_hopeless(start_s)
        if self._holder is not None and (self._holder is not holder or not self._runs_on(holder)):
            self._take_out(self._holder)
            self._holder = None
        if holder is not None and self._holder is None:
            self._holder = holder
            self._insert(holder)
        if start_s <= self._after_s or not (self.has_slack(0.0, start_s) or self._is_repaired(start_s)):
            self._walk(start_s)

    def _sort_out_hopeless(self, start_s: float) -> None:
        """O(log n) for each that changes."""
        while (first := self._by_latest_start.first()) is not None and latest_start_s(first) < start_s:
            self._by_latest_start.discard(first)
            self._take_out(first)
            self._hopeless.add(first)
            self._hopeless_by_start.add(first)
        while (last := self._hopeless_by_start.first()) is not None and latest_start_s(last) >= start_s:
            self._hopeless.discard(last)
            self._hopeless_by_start.discard(last)
            self._insert(last)
            self._by_latest_start.add(last)

    def _runs_on(self, holder: Candidate) -> bool:
        """Take in how far the holder, a member, is; False if the set may be another because of that."""
        if holder in self._aside:
            return False
        place = bisect_left(self._keys, deadline_key(holder))
        ran_s = self._remaining_s[place] - holder.remaining_s
        if ran_s == 0.0:
            return True
        if ran_s < 0.0:
            return False
        self._remaining_s[place] = holder.remaining_s
        self._kept_s -= ran_s
        self._after_s += ran_s
        if place == 0:
            self._until_s += ran_s
        else:
            self._tightest = None
        return True

    def _insert(self, candidate: Candidate) -> None:
        """Keep it, for the time being."""
        key = deadline_key(candidate)
        place = bisect_left(self._keys, key)
        self._kept.insert(place, candidate)
        self._keys.insert(place, key)
        self._deadlines_s.insert(place, candidate.deadline_s)
        self._remaining_s.insert(place, candidate.remaining_s)
        self._kept_s += candidate.remaining_s
        until_s = self._until_s - candidate.remaining_s
        if self._tightest is not None and deadline_key(self._tightest) < key:
            self._tightest = None
        if candidate.deadline_s - self._kept_s < until_s:
            own_until_s = candidate.deadline_s - sum(self._remaining_s[: place + 1])
            if own_until_s < until_s:
                until_s = own_until_s
                self._tightest = None if self._tightest is None else candidate
        self._until_s = until_s

    def _take_out(self, candidate: Candidate) -> None:
        """A member is no member any more."""
        if candidate in self._aside:
            self._aside.discard(candidate)
            return
        place = bisect_left(self._keys, deadline_key(candidate))
        remaining_s = self._remaining_s[place]
        self._after_s += remaining_s
        if place == 0:
            self._until_s += remaining_s
        if place or candidate is self._tightest:
            self._tightest = None
        self._delete(place)

    def _delete(self, place: int) -> None:
        self._kept_s -= self._remaining_s[place]
        del self._kept[place], self._keys[place], self._deadlines_s[place], self._remaining_s[place]
        if not self._kept:
            self._kept_s = 0.0
            self._until_s = inf

    def _measure_until(self) -> list[float]:
        """The latest start from which each that is kept is on time, and with it ``until``. O(n), in C."""
        ends_s = islice(accumulate(self._remaining_s, initial=0.0), 1, None)
        each_until_s = list(map(sub, self._deadlines_s, ends_s))
        self._until_s = min(each_until_s, default=inf)
        self._tightest = self._kept[each_until_s.index(self._until_s)] if each_until_s else None
        return each_until_s

    def _is_repaired(self, start_s: float) -> bool:
        """Set aside what does not fit at ``start_s``; False where that takes a walk. O(n), in C, for each."""
        for _ in range(_MAX_REPAIRS):
            each_until_s = self._measure_until()
            if start_s <= self._until_s:
                return True
            late_place = next(place for place, until_s in enumerate(each_until_s) if until_s < start_s)
            place = self._place_of_longest(late_place + 1)
            longest, deadline_s = self._kept[place], self._deadlines_s[late_place]
            key = shortness_key(longest, self._holder)
            for each in self._aside.all():
                if each.deadline_s > deadline_s and shortness_key(each, self._holder) > key:
                    return False
            self._after_s = max(self._after_s, each_until_s[late_place])
            self._delete(place)
            self._aside.add(longest)
        return False

    def _place_of_longest(self, num_first: int) -> int:
        """Where the longest of the first ``num_first`` kept is, by ``shortness_key``."""
        times_s = self._remaining_s[:num_first]
        longest_s = max(times_s)
        places = (place for place, time_s in enumerate(times_s) if time_s == longest_s)
        return max(places, key=lambda place: shortness_key(self._kept[place], self._holder))

    def _walk(self, start_s: float) -> None:
        """Make the set anew. O(m log m) for the m that are not hopeless."""
        members = sorted([*self._kept, *self._aside.all()], key=deadline_key)
        on_time = on_time_set(members, start_s, self._holder)
        self._kept = on_time.kept
        self._keys = [deadline_key(each) for each in self._kept]
        self._deadlines_s = [each.deadline_s for each in self._kept]
        self._remaining_s = [each.remaining_s for each in self._kept]
        self._kept_s = sum(self._remaining_s)
        self._aside = LazyHeap(_remaining_s)
        for each in on_time.aside:
            self._aside.add(each)
        self._after_s = start_s - on_time.least_excess_s
        self._measure_until()
