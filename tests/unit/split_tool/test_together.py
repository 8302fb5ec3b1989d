"""How long a block may be where models share a device."""

from __future__ import annotations

import pytest

from split_tool.together import SHORTEST_BLOCK_MS, shared_block_ms


@pytest.mark.parametrize(
    ("isolated_ms", "block_ms"),
    [([9.3, 11, 121, 593], 9.5), ([593, 3.62], 3.5), ([12.0], 12.0), ([0.4, 30], SHORTEST_BLOCK_MS)],
)
def test_the_shortest_model_says_how_long_a_block_may_be(isolated_ms: list[float], block_ms: float) -> None:
    assert shared_block_ms(isolated_ms) == block_ms
