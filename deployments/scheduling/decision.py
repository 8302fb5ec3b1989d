"""What the allocator answers, and what a live page shows: plain values."""

from __future__ import annotations

from dataclasses import dataclass

from deployments.scheduling.errors import RefusedError
from deployments.scheduling.request import Request, RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A waiting request that admission control has given up.

    Attributes:
        request: The request; it has ended.
        error: What its owner shall be told.
    """

    request: Request
    error: RefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the shell has to carry out, and when to call again.

    Attributes:
        grants: Requests to be told to run now, each from its ``blocks_done`` on.
        revoke: Holder that shall give the device up at its next boundary.
        keep: Holder asked before to give it up, which now may go on.
        refused: Waiting requests that admission control gives up.
        look_again_s: Call ``on_timer`` at this monotonic time at the latest; it replaces the time of every earlier
            decision. None: no need.
    """

    grants: tuple[Request, ...] = ()
    revoke: RequestId | None = None
    keep: RequestId | None = None
    refused: tuple[Refusal, ...] = ()
    look_again_s: float | None = None


NOTHING_TO_DO = Decision()


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
