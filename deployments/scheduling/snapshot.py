"""What a live page shows of the allocator: plain values."""

from __future__ import annotations

from dataclasses import dataclass

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.request import RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """One request as a live page shows it.

    Attributes:
        request_id: Identity.
        model: Model name.
        owner: The connection that runs it.
        priority: Level, 1 highest.
        blocks_done: Blocks finished.
        num_blocks: Blocks in all.
        age_s: Seconds since arrival.
        held_s: Seconds since the device was granted; None while waiting.
        remaining_s: Predicted run time still to come (for a holder: behind its running block), in seconds.
        time_to_deadline_s: Seconds until its deadline; negative when late, infinity without a deadline.
        is_revoked: Asked to give the device up at its next boundary.
        is_cancelled: Asked to stop.
    """

    request_id: RequestId
    model: str
    owner: str
    priority: int
    blocks_done: int
    num_blocks: int
    age_s: float
    held_s: float | None
    remaining_s: float
    time_to_deadline_s: float
    is_revoked: bool
    is_cancelled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The allocator at one moment.

    Attributes:
        now_s: The moment, monotonic seconds.
        is_recovering: After a restart: no grants yet.
        holders: Who runs; at most one in exclusive mode.
        waiting: Who waits, in arrival order.
        waiting_s: Predicted run time of all that wait, in seconds.
    """

    now_s: float
    is_recovering: bool
    holders: tuple[RequestView, ...]
    waiting: tuple[RequestView, ...]
    waiting_s: float


def view(candidate: Candidate, now_s: float) -> RequestView:
    """One request at this moment."""
    request = candidate.request
    since_s = candidate.holding_since_s
    return RequestView(
        request_id=request.request_id,
        model=request.model,
        owner=request.owner,
        priority=request.priority,
        blocks_done=candidate.blocks_done,
        num_blocks=candidate.num_blocks,
        age_s=now_s - request.arrival_s,
        held_s=None if since_s is None else max(0.0, now_s - since_s),
        remaining_s=candidate.remaining_s,
        time_to_deadline_s=request.deadline_s - now_s,
        is_revoked=candidate.is_revoked,
        is_cancelled=candidate.is_cancelled,
    )
