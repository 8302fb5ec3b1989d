"""What a replica asks the device for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from deployments.scheduling.errors import InvalidRequestError

RequestId = NewType("RequestId", str)

_INFINITE = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One inference that needs the device.

    Attributes:
        request_id: Identity, unique among all requests that wait or run.
        model: Name of the model; requests of one model stay in arrival order where the policy says so.
        owner: The connection (replica) that runs it.
        arrival_s: When it entered the system, monotonic seconds.
        isolated_s: Isolated time L, the whole model alone on the device, in seconds; more than 0.
        block_times_s: Predicted time of each block in seconds, in run order; one entry when not split. Blocks of
            another device count 0.
        deadline_s: When it should be finished, monotonic seconds: its own, or arrival + alpha x L; infinity for never.
        priority: Level, 1 is the highest.
        is_traced: Note down what only the allocator knows about it (``notes.py``); costs a forecast when it comes.
        first_block: First block that runs in this stay on the device; not 0 where others ran the blocks before it.
        end_block: Block before which the stay ends; None: it runs to the end. Work behind it still counts for policies.
        elsewhere_s: Predicted time that it needs on other devices after this stay, in seconds: this device should be
            done with it so much earlier.

    Raises:
        InvalidRequestError: If a field cannot be scheduled.
    """

    request_id: RequestId
    model: str
    owner: str
    arrival_s: float
    isolated_s: float
    block_times_s: tuple[float, ...]
    deadline_s: float
    priority: int = 1
    is_traced: bool = False
    first_block: int = 0
    end_block: int | None = None
    elsewhere_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.isolated_s < _INFINITE:
            raise InvalidRequestError(self.request_id, f"isolated_s is {self.isolated_s}, needed is a number above 0")
        if not -_INFINITE < self.arrival_s < _INFINITE:
            raise InvalidRequestError(self.request_id, f"arrival_s is {self.arrival_s}, needed is a number")
        if self.deadline_s != self.deadline_s:
            raise InvalidRequestError(self.request_id, "deadline_s is not a number")
        if self.priority < 1:
            raise InvalidRequestError(self.request_id, f"priority is {self.priority}, 1 is the highest level")
        if len(self.block_times_s) != 1 or not 0.0 <= self.block_times_s[0] < _INFINITE:
            check_block_times(self.request_id, self.block_times_s)
        is_part = self.first_block or self.end_block is not None
        if is_part and not 0 <= self.first_block < self.stops_at <= len(self.block_times_s):
            raise InvalidRequestError(
                self.request_id,
                f"runs blocks {self.first_block} to {self.stops_at - 1} of {len(self.block_times_s)}, needed is one",
            )

    @property
    def stops_at(self) -> int:
        """Number of the block before which its stay on the device ends."""
        return len(self.block_times_s) if self.end_block is None else self.end_block


def check_block_times(request_id: RequestId, block_times_s: tuple[float, ...]) -> None:
    """Raise InvalidRequestError unless there is at least one block and every time is a number, at least 0."""
    if not block_times_s:
        raise InvalidRequestError(request_id, "block_times_s is empty, a model that is not split has one block")
    for time_s in block_times_s:
        if not 0.0 <= time_s < _INFINITE:
            raise InvalidRequestError(request_id, f"block_times_s has {time_s}, needed are numbers of at least 0")
