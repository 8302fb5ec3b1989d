"""How many blocks (pure): from what the user asked for, and from the longest block for each number of blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from split_tool.plan import SplitRequest

AUTO_BLOCK_MS = 10.0
"""Where nothing is asked, blocks of about this: a short request then waits no longer for a boundary."""

SHORT_MODEL_BLOCKS = 3
"""Blocks of a model that takes hardly more than one block's time."""

NEAR = 1.15
"""Within this factor of the goal is near enough: the last few per cent cost many cuts."""


MORE_BLOCKS = 2
"""So many more where one operator sets the longest block: the others get shorter, and with them the usual wait."""


def choose_num_blocks(request: SplitRequest, longest_ms: Sequence[float]) -> int:
    """Number of blocks to aim at.

    Args:
        request: What the user asked for.
        longest_ms: The smallest longest block for 1, 2, ... blocks.
    """
    if request.blocks is not None:
        return min(request.blocks, len(longest_ms))
    floor_ms = min(longest_ms)
    if request.max_block_ms is not None:
        goal_ms = request.max_block_ms if request.max_block_ms >= floor_ms else floor_ms * 1.02
    else:
        whole_ms = longest_ms[0]
        goal_ms = NEAR * max(min(AUTO_BLOCK_MS, whole_ms / SHORT_MODEL_BLOCKS), floor_ms)
    num_blocks = next((count for count, value in enumerate(longest_ms, start=1) if value <= goal_ms), len(longest_ms))
    if request.max_block_ms is None:
        even = math.ceil(longest_ms[0] / (1.5 * AUTO_BLOCK_MS))
        num_blocks = max(num_blocks, min(even, num_blocks + MORE_BLOCKS, len(longest_ms)))
    return num_blocks
