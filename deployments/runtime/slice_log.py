"""The last turns of one device, with bounded memory."""

from __future__ import annotations

from collections import deque
from itertools import takewhile

from deployments.runtime.messages import Slice

DEFAULT_CAPACITY = 20_000
_LATE_NEWS_S = 1.0


class SliceLog:
    """A ring of slices in the order in which the allocator learnt of them."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._ring: deque[Slice] = deque(maxlen=capacity)
        self.num_recorded = 0
        self.busy_s = 0.0

    def record(self, turn: Slice) -> None:
        """Add one turn; the oldest falls out when the ring is full."""
        self._ring.append(turn)
        self.num_recorded += 1
        self.busy_s += turn.end_s - turn.start_s

    def after(self, time_s: float) -> list[Slice]:
        """The turns that ended after this monotonic time; O(turns since a second before it).

        News of turns come in the order in which they end but for a few milliseconds.
        """
        recent = takewhile(lambda turn: turn.end_s > time_s - _LATE_NEWS_S, reversed(self._ring))
        return [turn for turn in recent if turn.end_s > time_s]

    def since(self, num_seen: int) -> list[Slice]:
        """The turns after the first ``num_seen`` ever recorded, as far as they are still there, in order of leases.

        News of a short turn may come before that of the one that passed the device on to it.
        """
        num_wanted = min(max(self.num_recorded - num_seen, 0), len(self._ring))
        wanted = [self._ring[index] for index in range(len(self._ring) - num_wanted, len(self._ring))]
        return sorted(wanted, key=lambda turn: turn.lease)
