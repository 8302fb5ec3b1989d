"""What the allocator answers: plain values."""

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
