"""``response_ratio``: the greedy order of SPLIT (ICPP 2023, doi 10.1145/3605573.3605627), its faults repaired.

A newcomer b moves forward past a queued request a while that lowers the sum and does not raise the larger of the two
response ratios; requests of one model stay in arrival order. With c the remaining time, L the isolated time, and F the
moment when both are done, b passes a exactly if

    c_b L_b < c_a L_a                                 the sum falls, and
    (F - arrival_a) / L_a <= (F - arrival_b) / L_b    the larger does not rise.

Repaired: the true waiting time instead of one counted in whole turns, what remains of the running request instead of
all of it, uneven blocks, and the order is made anew at each decision from what waits then, not frozen at arrival.

Only the oldest request of each model can be first, so a decision compares heads: O(number of models, squared), whatever
the number waiting, plus O(log n) for the books.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.policies.gain import lowers_ratio_sum
from deployments.scheduling.policies.lazy_heap import LazyHeap
from deployments.scheduling.policies.levels import Levels
from deployments.scheduling.policies.options import StarvationOptions


def should_hold(waiting: Sequence[Candidate], holder: Candidate | None, now_s: float) -> Candidate | None:
    """The head of the queue that the greedy makes of each model's oldest request, or its holder, at ``now_s``."""
    heads: dict[str, Candidate] = {} if holder is None else {holder.model: holder}
    for candidate in sorted(waiting, key=lambda each: (each.arrival_s, each.sequence)):
        heads.setdefault(candidate.model, candidate)
    return _head(heads.values(), now_s)


def _head(heads: Iterable[Candidate], now_s: float) -> Candidate | None:
    """The first of the queue into which the heads, in arrival order, move forward one after the other."""
    queue: list[Candidate] = []
    start_s = now_s
    for newcomer in sorted(heads, key=lambda each: (each.arrival_s, each.sequence)):
        both_done_s = start_s = start_s + newcomer.remaining_s
        place = len(queue)
        while place and _passes(newcomer, queue[place - 1], both_done_s):
            place -= 1
            both_done_s -= queue[place].remaining_s
        queue.insert(place, newcomer)
    return queue[0] if queue else None


def _passes(newcomer: Candidate, queued: Candidate, both_done_s: float) -> bool:
    """True if the newcomer goes before the queued one right ahead of it, where both are done at ``both_done_s``."""
    return (
        newcomer.remaining_s * newcomer.isolated_s < queued.remaining_s * queued.isolated_s
        and (both_done_s - queued.arrival_s) * newcomer.isolated_s
        <= (both_done_s - newcomer.arrival_s) * queued.isolated_s
    )


class ResponseRatio:
    """``should_hold`` kept up to date."""

    __slots__ = ("_by_model", "_num_waiting")

    changes_with_time = True

    def __init__(self) -> None:
        self._by_model: dict[str, LazyHeap] = {}
        self._num_waiting = 0

    def __len__(self) -> int:
        return self._num_waiting

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait. O(log n)."""
        heap = self._by_model.get(candidate.model)
        if heap is None:
            heap = self._by_model[candidate.model] = LazyHeap(lambda each: each.arrival_s)
        heap.add(candidate)
        self._num_waiting += 1

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more. O(1), amortised."""
        heap = self._by_model[candidate.model]
        heap.discard(candidate)
        if not len(heap):
            del self._by_model[candidate.model]
        self._num_waiting -= 1

    def choose(self, now_s: float, holder: Candidate | None) -> Candidate | None:
        """Who should hold the device at ``now_s``; None if there is nobody."""
        heads = [] if holder is None else [holder]
        for model, heap in self._by_model.items():
            if holder is None or model != holder.model:
                first = heap.first()
                if first is not None:
                    heads.append(first)
        return _head(heads, now_s)

    def is_worth(self, challenger: Candidate, holder: Candidate, now_s: float, cost_s: float) -> bool:
        """True if a hand-over that costs ``cost_s`` lowers the sum of response ratios."""
        return lowers_ratio_sum(challenger, holder, cost_s)

    def is_late(self, candidate: Candidate, now_s: float) -> bool:
        """Nobody is set aside."""
        return False


def make_response_ratio(options: StarvationOptions) -> Levels[ResponseRatio]:
    """The policy; within a level ``should_hold`` decides."""
    return Levels(ResponseRatio, options)
