"""A simulated device: runs the blocks of its holder in virtual time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from deployments.scheduling.request import Request, RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One turn.

    Attributes:
        request_id: Who had it.
        model: Its model.
        first_block: The block it began with, counted from 0.
        start_s: When its first block began, virtual seconds.
        block_ends_s: When each of its blocks ended, virtual seconds.
    """

    request_id: RequestId
    model: str
    first_block: int
    start_s: float
    block_ends_s: tuple[float, ...]

    @property
    def num_blocks(self) -> int:
        """Blocks run."""
        return len(self.block_ends_s)

    @property
    def end_s(self) -> float:
        """When its last block ended, virtual seconds."""
        return self.block_ends_s[-1]


class Turn:
    """The holder's turn as it goes on: where its boundaries lie.

    Attributes:
        request: The holder.
        first_block: The block the turn began with.
        start_s: When that block began, virtual seconds.
        boundaries_s: End of each of its blocks from ``first_block`` on, virtual seconds, as far as it runs undisturbed.
        end_s: When it gives the device up: its last boundary, or the one at which it was told to.
    """

    __slots__ = ("boundaries_s", "end_s", "first_block", "request", "start_s")

    def __init__(
        self, request: Request, first_block: int, start_s: float, stretch: Callable[[], float] | None = None
    ) -> None:
        self.request = request
        self.first_block = first_block
        self.start_s = start_s
        end_s = start_s
        boundaries_s = []
        for block_s in request.block_times_s[first_block:] if first_block else request.block_times_s:
            end_s += block_s if stretch is None else block_s * stretch()
            boundaries_s.append(end_s)
        self.boundaries_s = boundaries_s
        self.end_s = end_s

    def blocks_done(self, now_s: float) -> int:
        """Blocks of the request finished at ``now_s``."""
        return self.first_block + bisect_right(self.boundaries_s, now_s)

    def boundary_before(self, now_s: float) -> float:
        """When the block that runs at ``now_s`` began."""
        done = bisect_right(self.boundaries_s, now_s)
        return self.boundaries_s[done - 1] if done else self.start_s

    def give_up_after(self, now_s: float) -> None:
        """End at the first boundary after ``now_s``."""
        done = bisect_right(self.boundaries_s, now_s)
        self.end_s = self.boundaries_s[min(done, len(self.boundaries_s) - 1)]

    def go_on(self) -> None:
        """End at the last boundary after all."""
        self.end_s = self.boundaries_s[-1]
