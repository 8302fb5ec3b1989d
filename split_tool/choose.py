"""How many blocks (pure): from what the user asked for, and from what each number of blocks gains and costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from split_tool.plan import SplitRequest

WORTH = 10.0
"""The knee: one more block must shorten the longest by so many times what its cut costs."""

AIM = 0.95
"""Share of the wanted longest block that is aimed at: measured blocks vary by a few per cent."""

EVEN_BLOCK_MS = 15.0
MORE_BLOCKS = 2
"""So many more where one operator sets the longest block: the others get shorter, and with them the usual wait."""


def wanted_block_ms(request: SplitRequest, whole_ms: Callable[[], float]) -> float:
    """The longest block that the request is content with, in ms.

    What it says, an even share of the whole for its number of blocks, else ``EVEN_BLOCK_MS``; ``whole_ms`` is asked
    only for the share.
    """
    if request.max_block_ms is not None:
        return request.max_block_ms
    return EVEN_BLOCK_MS if request.blocks is None else whole_ms() / request.blocks


def choose_num_blocks(request: SplitRequest, longest_ms: Sequence[float], cuts_ms: Callable[[int], float]) -> int:
    """Number of blocks to aim at where no number was asked for.

    Args:
        request: What the user asked for.
        longest_ms: The smallest longest block for 1, 2, ... blocks.
        cuts_ms: What all cuts of that partition cost, by number of blocks; asked only where nothing was asked for.
    """
    if request.max_block_ms is not None:
        floor_ms = min(longest_ms)
        goal_ms = max(AIM * request.max_block_ms, floor_ms * 1.02)
        return next((count for count, value in enumerate(longest_ms, start=1) if value <= goal_ms), len(longest_ms))
    num_blocks = knee(longest_ms, cuts_ms)
    even = math.ceil(longest_ms[0] / EVEN_BLOCK_MS)
    return max(num_blocks, min(even, num_blocks + MORE_BLOCKS, len(longest_ms)))


def knee(longest_ms: Sequence[float], cuts_ms: Callable[[int], float]) -> int:
    """Number of blocks at the knee of overhead against longest block.

    It minimises the longest block plus ``WORTH`` times what the cuts cost: the point where a line of that slope touches
    the curve from below. Numbers of blocks that cannot win, with cuts as cheap as the cheapest so far, are not asked.
    """
    best, best_ms = 1, longest_ms[0]
    cheapest_ms = math.inf
    for count in range(2, len(longest_ms) + 1):
        floor_ms = WORTH * (count - 1) * cheapest_ms if math.isfinite(cheapest_ms) else 0.0
        if longest_ms[-1] + floor_ms >= best_ms and floor_ms > 0:
            break
        cost_ms = cuts_ms(count)
        cheapest_ms = min(cheapest_ms, cost_ms / (2 * (count - 1)))
        if longest_ms[count - 1] + WORTH * cost_ms < best_ms:
            best, best_ms = count, longest_ms[count - 1] + WORTH * cost_ms
    return best
