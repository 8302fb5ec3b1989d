"""A request as the allocator and its policy see it: with its progress."""

from __future__ import annotations

from deployments.scheduling.notes import Notes
from deployments.scheduling.request import Request


class Candidate:
    """One request that competes for the device.

    The allocator alone changes it, and never while a policy counts it among the waiting.

    Attributes:
        request: What was submitted.
        sequence: Number of the submission; with ``arrival_s`` it is the arrival order.
        arrival_s: The request's arrival, monotonic seconds.
        deadline_s: The request's deadline, monotonic seconds, less what it needs on other devices afterwards.
        isolated_s: Isolated time in seconds.
        priority: The request's level, 1 highest.
        model: The request's model.
        remaining_s: Predicted run time, in seconds, still to come at the next moment anything can be decided: of all
            blocks not yet run for a waiting request, of the blocks behind the running one for a holder; also of those
            behind the end of its stay.
        blocks_done: Blocks finished.
        num_blocks: Blocks in all.
        stops_at: Block before which its stay on the device ends.
        block_began_s: When the running block began (a holder), monotonic seconds.
        holding_since_s: When the device was granted; None while waiting.
        is_cancelled: Asked to stop; it is not chosen again.
        is_revoked: Asked to give the device up at its next boundary.
        notes: What is noted down about it; None if it is not traced.
    """

    __slots__ = (
        "_suffix_s",
        "arrival_s",
        "block_began_s",
        "blocks_done",
        "deadline_s",
        "holding_since_s",
        "is_cancelled",
        "is_revoked",
        "isolated_s",
        "model",
        "notes",
        "num_blocks",
        "priority",
        "remaining_s",
        "request",
        "sequence",
        "stops_at",
    )

    def __init__(self, request: Request, sequence: int, *, blocks_done: int = 0) -> None:
        self.request = request
        self.sequence = sequence
        self.arrival_s = request.arrival_s
        self.deadline_s = request.deadline_s - request.elsewhere_s
        self.isolated_s = request.isolated_s
        self.priority = request.priority
        self.model = request.model
        self.num_blocks = len(request.block_times_s)
        self.stops_at = request.stops_at
        self.blocks_done = blocks_done
        self.set_block_times(request.block_times_s)
        self.block_began_s = request.arrival_s
        self.holding_since_s: float | None = None
        self.is_cancelled = False
        self.is_revoked = False
        self.notes = Notes() if request.is_traced else None

    def __repr__(self) -> str:
        return (
            f"Candidate({self.request.request_id!r}, done={self.blocks_done}/{self.num_blocks}, "
            f"remaining_s={self.remaining_s:.6f}, deadline_s={self.deadline_s:.6f})"
        )

    @property
    def is_in_last_block(self) -> bool:
        """True for a holder that meets no boundary before its end."""
        return self.blocks_done + 1 >= self.stops_at

    @property
    def running_block_s(self) -> float:
        """Predicted time of the block after ``blocks_done``, in seconds; 0 when all are done."""
        done = self.blocks_done
        return self._suffix_s[done] - self._suffix_s[done + 1] if done < self.num_blocks else 0.0

    def set_block_times(self, block_times_s: tuple[float, ...]) -> None:
        """Replace the predicted times, one entry a block."""
        if len(block_times_s) == 1:
            self._suffix_s = [block_times_s[0], 0.0]
        else:
            suffix_s = [0.0] * (len(block_times_s) + 1)
            for index in range(len(block_times_s) - 1, -1, -1):
                suffix_s[index] = suffix_s[index + 1] + block_times_s[index]
            self._suffix_s = suffix_s
        self.remaining_s = self._suffix_s[self.blocks_done]

    def stop_at(self, blocks_done: int) -> None:
        """Stand at a boundary with ``blocks_done`` blocks finished and none running."""
        self.blocks_done = blocks_done
        self.remaining_s = self._suffix_s[blocks_done]

    def run_from(self, blocks_done: int, began_s: float) -> None:
        """Run the block after ``blocks_done``, since ``began_s``."""
        self.blocks_done = blocks_done
        self.block_began_s = began_s
        self.remaining_s = self._suffix_s[min(blocks_done + 1, self.num_blocks)]
