"""A heap of waiting requests from which any request can be taken."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from deployments.scheduling.candidate import Candidate

_Item = tuple[float, float, int, int, Candidate]


class LazyHeap:
    """Waiting requests by key, then arrival; taking one out leaves a dead item that is dropped when it comes up.

    Args:
        key: What to order by, smallest first; must not change while the request is in the heap.
    """

    __slots__ = ("_items", "_key", "_live", "_num_added")

    def __init__(self, key: Callable[[Candidate], float]) -> None:
        self._key = key
        self._items: list[_Item] = []
        self._live: dict[int, int] = {}  # which of a request's items counts, by its number
        self._num_added = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, candidate: Candidate) -> bool:
        return candidate.sequence in self._live

    def all(self) -> list[Candidate]:
        """All requests in the heap, in no order. O(n)."""
        return [item[4] for item in self._items if self._live.get(item[2]) == item[3]]

    def add(self, candidate: Candidate) -> None:
        """Put a request in. O(log n)."""
        self._num_added = number = self._num_added + 1
        self._live[candidate.sequence] = number
        heappush(self._items, (self._key(candidate), candidate.arrival_s, candidate.sequence, number, candidate))

    def discard(self, candidate: Candidate) -> None:
        """Take a request out, if it is in. O(1), amortised."""
        if self._live.pop(candidate.sequence, None) is not None and len(self._items) > 2 * len(self._live) + 64:
            self._items = [item for item in self._items if self._live.get(item[2]) == item[3]]
            heapify(self._items)

    def first(self) -> Candidate | None:
        """The request with the smallest key; on equal keys the one that arrived first. O(log n), amortised."""
        items = self._items
        live = self._live
        while items:
            item = items[0]
            if live.get(item[2]) == item[3]:
                return item[4]
            heappop(items)
        return None
