"""Exact partition of a row of steps into blocks (pure): no block over a bound, cheapest cuts, then even blocks.

Dynamic programming over cut positions, one layer per block. With ``n`` positions for a cut and ``k`` blocks,
the smallest longest block costs ``O(k n log n)``. Choosing among the partitions that reach it looks only at places that
some of them can have, which are few where blocks can be even; where one operator sets the longest block they are all,
``O(k n w)`` for ``w`` positions to a block, done ``w`` at a time in numpy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

EVENNESS = 0.5
"""A random moment waits for half the block it falls into: a millisecond of that counts like one of run time."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What blocks would cost.

    Attributes:
        step_ms: Time of each step.
        positions: Where a cut is allowed, ascending, each from 1 to ``len(step_ms) - 1``.
        cut_ms: For each of ``positions``, what a cut there adds; half to the block before it, half to the one after.
    """

    step_ms: tuple[float, ...]
    positions: tuple[int, ...]
    cut_ms: tuple[float, ...]

    def block_ms(self, start: int, stop: int) -> float:
        """Cost of the block of steps ``start`` to ``stop - 1``, both of them ends or allowed positions."""
        edges = dict(zip(self.positions, self.cut_ms, strict=True))
        return sum(self.step_ms[start:stop]) + (edges.get(start, 0.0) + edges.get(stop, 0.0)) / 2


def longest_by_blocks(costs: Costs, max_blocks: int) -> list[float]:
    """The smallest longest block, in ms, for 1, 2, ... blocks, as far as there are positions."""
    return _curve(costs).up_to(min(max_blocks, len(costs.positions) + 1))


class _Curve:
    """The smallest longest block by number of blocks, computed as far as somebody asked; each layer builds on the last.

    Attributes:
        values: In ms, for 1, 2, ... blocks.
    """

    def __init__(self, costs: Costs) -> None:
        self._ends, self._starts = _edges(costs)
        self._best = self._ends[1:] - self._starts[0]
        self.values = [float(self._best[-1])]

    def up_to(self, num_blocks: int) -> list[float]:
        """The values for 1 to ``num_blocks`` blocks."""
        while len(self.values) < num_blocks:
            self._best = _next_longest(self._best, self._ends, self._starts)
            self.values.append(float(self._best[-1]))
        return self.values[:num_blocks]


_curve = lru_cache(maxsize=4)(_Curve)
"""A partition, and choosing how many blocks it has, ask for the same curve again and again."""


def thinned(costs: Costs, max_positions: int) -> Costs:
    """The same with at most ``max_positions`` places for a cut: the cheapest of each of so many rows of neighbours."""
    num = len(costs.positions)
    if num <= max_positions:
        return costs
    rows = pairwise(at * num // max_positions for at in range(max_positions + 1))
    kept = [min(range(start, stop), key=lambda at: costs.cut_ms[at]) for start, stop in rows]
    return replace(
        costs,
        positions=tuple(costs.positions[at] for at in kept),
        cut_ms=tuple(costs.cut_ms[at] for at in kept),
    )


def partition(costs: Costs, num_blocks: int, *, bound_ms: float = 0.0) -> tuple[int, ...]:
    """The cut positions of the best partition into ``num_blocks`` blocks, ascending.

    No block is longer than the bound; among such partitions the one of the smallest ``price_ms`` is best. Fewer blocks
    come back where there are fewer positions.

    Args:
        costs: Steps and cuts.
        num_blocks: Wanted number of blocks.
        bound_ms: Wanted longest block; the smallest longest block that is possible counts where that is longer.
    """
    ends, starts = _edges(costs)
    num_blocks = min(num_blocks, len(costs.positions) + 1)
    bound = max(longest_by_blocks(costs, num_blocks)[-1], bound_ms)
    before = _before(costs)
    slack = 1e-9 * (before[-1] + bound)
    cut = np.asarray([0.0, *costs.cut_ms, 0.0])
    evenness = EVENNESS / max(before[-1], 1e-12)
    prices = np.full(len(ends), np.inf)
    prices[0] = 0.0
    choices: list[npt.NDArray[np.int64]] = []
    for done in range(1, num_blocks + 1):
        following = np.full(len(ends), np.inf)
        choice = np.zeros(len(ends), dtype=np.int64)
        first = max(1, int(np.searchsorted(before, before[-1] - (num_blocks - done) * bound - slack)))
        last = int(np.searchsorted(before, done * bound + slack, side="right"))
        nearest = np.searchsorted(before, before - bound - slack)
        for stop in range(first, min(last, len(ends))):
            near = min(int(nearest[stop]), stop - 1)
            block = ends[stop] - starts[near:stop]
            total = np.where(block <= bound, prices[near:stop] + evenness * block * block, np.inf)
            at = int(np.argmin(total))
            choice[stop] = near + at
            following[stop] = total[at] + cut[stop]
        prices = following
        choices.append(choice)
    cuts: list[int] = []
    place = len(ends) - 1
    for choice in reversed(choices):
        place = int(choice[place])
        cuts.append(place)
    return tuple(costs.positions[place - 1] for place in reversed(cuts) if place > 0)


def _before(costs: Costs) -> Array:
    """Time of all steps before each place (begin, positions, end)."""
    places = [0, *costs.positions, len(costs.step_ms)]
    return np.concatenate([[0.0], np.cumsum(np.asarray(costs.step_ms, dtype=np.float64))])[places]


def _edges(costs: Costs) -> tuple[Array, Array]:
    """Two rows over the places so that a block costs ``ends[stop] - starts[start]``."""
    before = _before(costs)
    half = np.asarray([0.0, *costs.cut_ms, 0.0]) / 2
    return before + half, before - half


def _next_longest(best: Array, ends: Array, starts: Array) -> Array:
    """Longest block up to each place with one block more; ``best[i]`` is for place ``i + 1``.

    The start of the last block should be late and the best before it small. Starts that another beats in both are
    dropped; along those left both grow, so that the best one for an end lies where they balance: one binary search.
    """
    result = np.full_like(best, np.inf)
    longest: list[float] = []
    start: list[float] = []
    balance: list[float] = []
    for stop in range(2, len(ends)):
        _insert(float(best[stop - 2]), float(starts[stop - 1]), longest, start, balance)
        end = float(ends[stop])
        at = bisect_left(balance, end)
        least = max(longest[at], end - start[at]) if at < len(longest) else np.inf
        if at:
            least = min(least, max(longest[at - 1], end - start[at - 1]))
        result[stop - 1] = least
    return result


def _insert(value: float, place: float, longest: list[float], start: list[float], balance: list[float]) -> None:
    """Add a start of the last block, unless another one beats it; drop those that it beats."""
    if value == np.inf:
        return
    at = bisect_left(longest, value)
    if (at and start[at - 1] >= place) or (at < len(longest) and longest[at] == value and start[at] >= place):
        return
    end = at
    while end < len(start) and start[end] <= place:
        end += 1
    longest[at:end], start[at:end], balance[at:end] = [value], [place], [value + place]


def price_ms(costs: Costs, cuts: Sequence[int]) -> float:
    """What a partition is judged by: its cuts, and ``EVENNESS`` of the block that a random moment falls into."""
    places = [0, *cuts, len(costs.step_ms)]
    squares = sum(costs.block_ms(start, stop) ** 2 for start, stop in pairwise(places))
    return cuts_ms(costs, cuts) + EVENNESS * squares / max(sum(costs.step_ms), 1e-12)


def cuts_ms(costs: Costs, cuts: Sequence[int]) -> float:
    """What these cuts add to the time of all steps."""
    edges = dict(zip(costs.positions, costs.cut_ms, strict=True))
    return sum(edges[position] for position in cuts)
