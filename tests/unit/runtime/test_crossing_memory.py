"""Tensors of one request share memory, and never two that are alive at the same time."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deployments.runtime.backends.crossing_memory import Extent, lay_out, touched_memory


@st.composite
def extents(draw: st.DrawFn) -> Extent:
    first = draw(st.integers(0, 20))
    return Extent(draw(st.integers(1, 1000)), first, first + draw(st.integers(0, 5)))


@given(st.lists(extents(), max_size=30))
def test_tensors_that_are_alive_together_lie_apart_and_all_lie_inside(wanted: list[Extent]) -> None:
    offsets, num_bytes = lay_out(wanted)
    assert len(offsets) == len(wanted)
    assert all(0 <= at <= num_bytes - extent.num_bytes for at, extent in zip(offsets, wanted, strict=True))
    for (at, extent), (other_at, other) in combinations(zip(offsets, wanted, strict=True), 2):
        if extent.first <= other.last and other.first <= extent.last:
            assert at + extent.num_bytes <= other_at or other_at + other.num_bytes <= at


@given(st.integers(1, 100), st.integers(2, 30))
def test_a_chain_of_equal_tensors_takes_two_places(size: int, num_tensors: int) -> None:
    offsets, num_bytes = lay_out([Extent(64 * size, block, block + 1) for block in range(num_tensors)])
    assert num_bytes == 2 * 64 * size
    assert offsets == [64 * size * (block % 2) for block in range(num_tensors)]


def test_a_gap_between_others_is_filled_where_it_fits_best() -> None:
    """The second and the fourth leave gaps of 512 and 192 bytes after block 1."""
    stays = 9
    first = [Extent(640, 0, stays), Extent(512, 0, 1), Extent(448, 0, stays), Extent(192, 0, 1), Extent(192, 0, stays)]
    offsets, num_bytes = lay_out([*first, Extent(128, 2, stays), Extent(64, 0, stays)])
    assert offsets == [0, 640, 1152, 1600, 1792, 1600, 1984]
    assert num_bytes == 2048


def test_nothing_takes_nothing() -> None:
    assert lay_out([]) == ([], 0)
    assert touched_memory(0).size == 0


def test_memory_can_be_written() -> None:
    memory = touched_memory(10_000)
    memory[:] = np.arange(10_000) % 251
    assert memory.dtype == np.uint8
    assert memory[9_999] == 9_999 % 251
