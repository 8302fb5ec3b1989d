"""What the slice log of a device shows: how long blocks took, and what changing hands costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

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
    """Median time of each block of a model, in seconds; None where one of its blocks never ran."""
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
    return tuple(median(times_s[block]) for block in range(num_blocks))
