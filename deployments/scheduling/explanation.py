"""Where the time of a request went: told from the turns that were recorded on its device.

The time from arrival to the end is cut into its own turns and what lies between them. Each moment of waiting belongs to
the turn that ran then, or to nobody: hand-overs, an idle device, turns that are no longer in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

from deployments.scheduling.errors import UnknownRequestError
from deployments.scheduling.notes import Notes, Reason
from deployments.scheduling.request import Request, RequestId


class RecordedTurn(Protocol):
    """One turn as a slice log has it; times in monotonic seconds."""

    @property
    def request_id(self) -> RequestId:
        """Whose turn."""

    @property
    def model(self) -> str:
        """Its model."""

    @property
    def first_block(self) -> int:
        """First block of the turn."""

    @property
    def start_s(self) -> float:
        """When the first block began."""

    @property
    def block_ends_s(self) -> Sequence[float]:
        """When each block of the turn ended; shorter by one block where that block failed."""

    @property
    def end_s(self) -> float:
        """When the turn ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """A request that had the device while the explained one waited.

    Attributes:
        request_id: Identity.
        model: Its model.
        ran_s: How long it ran in that time, in seconds.
    """

    request_id: RequestId
    model: str
    ran_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """The device was taken away at a boundary.

    Attributes:
        request_id: Who had it next.
        model: Its model.
        blocks_done: Blocks that the explained request had finished then.
        lost_s: Time until it went on (or ended), in seconds.
    """

    request_id: RequestId
    model: str
    blocks_done: int
    lost_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where the time went: ``total_s`` = ``ran_s`` + ``waited_s``, ``waited_s`` = sum of ``behind`` + ``idle_s``.

    Attributes:
        request_id: Identity.
        model: Its model.
        total_s: From arrival to the end, in seconds.
        ran_s: In its own turns.
        waited_s: Outside of them.
        block_s: Run time of each block in run order; those of turns no longer in the log are missing.
        behind: Who had the device while it waited, in the order in which they first had it.
        idle_s: Waited while no recorded turn ran.
        preemptions: In order of time.
        predicted_wait_s: How long it would wait for its first turn, as predicted when it came; None if not traced.
        reasons: Why it was granted each of its turns; empty if not traced.
    """

    request_id: RequestId
    model: str
    total_s: float
    ran_s: float
    waited_s: float
    block_s: tuple[float, ...]
    behind: tuple[Blocker, ...]
    idle_s: float
    preemptions: tuple[Preemption, ...]
    predicted_wait_s: float | None = None
    reasons: tuple[Reason, ...] = ()


def explain(
    turns: Iterable[RecordedTurn], request: Request, *, end_s: float | None = None, notes: Notes | None = None
) -> Explanation:
    """Where the time of a request went. O(t log t + t x own turns) for t turns since its arrival.

    Args:
        turns: Turns on its device, in any order; at least those between its arrival and its end.
        request: The request; of one that runs on in other stays (``Request.end_block``) this stay is explained.
        end_s: When it ended, monotonic seconds; None: with its last turn.
        notes: What the allocator noted down, if the request was traced.

    Raises:
        UnknownRequestError: If no turn of it is there and ``end_s`` is None.
    """
    recent = sorted((turn for turn in turns if turn.end_s > request.arrival_s), key=lambda turn: turn.start_s)
    own = [turn for turn in recent if is_of_stay(turn, request)]
    others = [turn for turn in recent if turn.request_id != request.request_id]
    if end_s is None:
        if not own:
            raise UnknownRequestError(request.request_id)
        end_s = own[-1].end_s
    waits = list(_waits(own, others, request.arrival_s, end_s))
    own_s = sum(turn.end_s - turn.start_s for turn in own)
    return Explanation(
        request_id=request.request_id,
        model=request.model,
        total_s=end_s - request.arrival_s,
        ran_s=own_s,
        waited_s=end_s - request.arrival_s - own_s,
        block_s=tuple(time_s for turn in own for time_s in _block_times(turn)),
        behind=_by_request(blocker for wait in waits for blocker in wait.blockers),
        idle_s=sum(wait.idle_s for wait in waits),
        preemptions=tuple(
            Preemption(
                request_id=wait.blockers[0].request_id,
                model=wait.blockers[0].model,
                blocks_done=turn.first_block + len(turn.block_ends_s),
                lost_s=wait.lasted_s,
            )
            for turn, wait in zip(own, waits[1:], strict=True)
            if wait.blockers
        ),
        predicted_wait_s=None if notes is None else notes.predicted_wait_s,
        reasons=() if notes is None else tuple(notes.reasons),
    )


def is_of_stay(turn: RecordedTurn, request: Request) -> bool:
    """Whether it is one of the request's own turns, in the stay on the device that the request tells of."""
    return turn.request_id == request.request_id and request.first_block <= turn.first_block < request.stops_at


def joined(stays: Sequence[Explanation]) -> Explanation:
    """The explanation of a request from those of its stays, each of which begins where the one before ends."""
    first = stays[0]
    return Explanation(
        request_id=first.request_id,
        model=first.model,
        total_s=sum(stay.total_s for stay in stays),
        ran_s=sum(stay.ran_s for stay in stays),
        waited_s=sum(stay.waited_s for stay in stays),
        block_s=tuple(time_s for stay in stays for time_s in stay.block_s),
        behind=_by_request(blocker for stay in stays for blocker in stay.behind),
        idle_s=sum(stay.idle_s for stay in stays),
        preemptions=tuple(preemption for stay in stays for preemption in stay.preemptions),
        predicted_wait_s=first.predicted_wait_s,
        reasons=tuple(reason for stay in stays for reason in stay.reasons),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wait:
    """What lay before a turn of its own, or after the last; who ran then, turn by turn, and how long nobody did."""

    blockers: list[Blocker]
    idle_s: float
    lasted_s: float


def _waits(
    own: Sequence[RecordedTurn], others: Sequence[RecordedTurn], arrival_s: float, end_s: float
) -> Iterator[_Wait]:
    """The wait before each own turn and the one after the last; of turns at the same time the earlier counts."""
    starts_s = [arrival_s, *(turn.end_s for turn in own)]
    for from_s, until_s in zip(starts_s, [*(turn.start_s for turn in own), end_s], strict=True):
        blockers = []
        free_s = from_s
        for turn in others:
            start_s = max(turn.start_s, free_s)
            stop_s = min(turn.end_s, until_s)
            if stop_s > start_s:
                blockers.append(Blocker(request_id=turn.request_id, model=turn.model, ran_s=stop_s - start_s))
                free_s = stop_s
        lasted_s = until_s - from_s
        yield _Wait(blockers=blockers, idle_s=lasted_s - sum(each.ran_s for each in blockers), lasted_s=lasted_s)


def _by_request(blockers: Iterable[Blocker]) -> tuple[Blocker, ...]:
    together: dict[RequestId, Blocker] = {}
    for each in blockers:
        known = together.get(each.request_id)
        together[each.request_id] = each if known is None else replace(known, ran_s=known.ran_s + each.ran_s)
    return tuple(together.values())


def _block_times(turn: RecordedTurn) -> list[float]:
    return [end_s - start_s for start_s, end_s in pairwise([turn.start_s, *turn.block_ends_s])]
