"""What the slice log of a device shows: how long blocks took, what changing hands costs, what else requests took."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import mean

from benchmarks.load.report import Outcome
from deployments.runtime.messages import Slice

# A device that is idle for longer had nobody to serve.
_MAX_HANDOVER_S = 0.003


def handover_s(slices: Sequence[Slice]) -> list[float]:
    """How long the device was idle each time it went from one request to another that waited, in seconds.

    Nobody logs whether somebody waited: a gap of up to 3 ms counts, a longer one is an idle device.
    """
    gaps_s = [
        later.start_s - earlier.end_s for earlier, later in pairwise(slices) if earlier.request_id != later.request_id
    ]
    return [gap for gap in gaps_s if 0.0 <= gap <= _MAX_HANDOVER_S]


def block_times_s(slices: Iterable[Slice], model: str) -> tuple[float, ...] | None:
    """Mean time of each block of a model, in seconds; None where one of its blocks never ran.

    The mean, because whoever waits behind slow blocks waits for all of them.
    """
    times_s: dict[int, list[float]] = {}
    num_blocks = 0
    for turn in slices:
        if turn.model != model:
            continue
        ends_s = (turn.start_s, *turn.block_ends_s)
        for offset, (start_s, end_s) in enumerate(pairwise(ends_s)):
            times_s.setdefault(turn.first_block + offset, []).append(end_s - start_s)
        num_blocks = max(num_blocks, turn.first_block + len(turn.block_ends_s))
    if not num_blocks or set(times_s) != set(range(num_blocks)):
        return None
    return tuple(mean(times_s[block]) for block in range(num_blocks))


def lone_path_s(outcomes: Iterable[Outcome], slices: Sequence[Slice], began_s: float) -> list[float]:
    """What answered requests that met no other took on top of their time on the device, in seconds.

    Args:
        outcomes: All requests, in seconds from the start of the round.
        slices: All turns, on the monotonic clock.
        began_s: The start of the round on the monotonic clock.
    """
    by_time = sorted(outcomes, key=lambda each: each.scheduled_s)
    next_s = [each.scheduled_s for each in by_time[1:]] + [math.inf]
    paths_s = []
    free_s = 0.0  # since when nobody is on the way
    for outcome, until_s in zip(by_time, next_s, strict=True):
        start_s, end_s = outcome.scheduled_s, outcome.finished_s
        if free_s <= start_s and end_s <= until_s and outcome.failure is None:
            own = [turn for turn in slices if began_s + start_s < turn.end_s and turn.start_s < began_s + end_s]
            if own:
                paths_s.append(max(0.0, end_s - start_s - sum(turn.end_s - turn.start_s for turn in own)))
        free_s = max(free_s, end_s)
    return paths_s
