"""The partition is exact, and the choice of the number of blocks follows what was asked."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from split_tool.choose import choose_num_blocks
from split_tool.partition import Costs, longest_by_blocks, partition
from split_tool.plan import SplitRequest


@st.composite
def small_costs(draw: st.DrawFn) -> Costs:
    steps = draw(st.lists(st.integers(1, 30).map(float), min_size=1, max_size=9))
    positions = tuple(sorted(draw(st.sets(st.integers(1, len(steps) - 1))))) if len(steps) > 1 else ()
    cut_ms = tuple(draw(st.integers(0, 8).map(float)) for _ in positions)
    return Costs(step_ms=tuple(steps), positions=positions, cut_ms=cut_ms)


def quality(costs: Costs, cuts: tuple[int, ...]) -> tuple[float, float]:
    blocks = [costs.block_ms(start, stop) for start, stop in pairwise([0, *cuts, len(costs.step_ms)])]
    return max(blocks), sum(block * block for block in blocks)


@settings(deadline=None, max_examples=60)
@given(small_costs(), st.integers(1, 5))
def test_the_partition_is_as_good_as_exhaustive_search(costs: Costs, num_blocks: int) -> None:
    num_blocks = min(num_blocks, len(costs.positions) + 1)
    best = min(quality(costs, cuts) for cuts in combinations(costs.positions, num_blocks - 1))
    cuts = partition(costs, num_blocks)
    assert len(cuts) == num_blocks - 1
    assert quality(costs, cuts) == pytest.approx(best)


@settings(deadline=None, max_examples=40)
@given(small_costs())
def test_the_trade_off_curve_names_the_longest_block_of_each_partition(costs: Costs) -> None:
    for count, longest_ms in enumerate(longest_by_blocks(costs, 6), start=1):
        assert quality(costs, partition(costs, count))[0] == pytest.approx(longest_ms)


def test_more_blocks_than_places_give_as_many_as_there_are() -> None:
    costs = Costs(step_ms=(1.0, 2.0, 3.0), positions=(1,), cut_ms=(0.0,))
    assert partition(costs, 5) == (1,)


def test_a_graph_without_steps_is_one_block() -> None:
    costs = Costs(step_ms=(), positions=(), cut_ms=())
    assert partition(costs, 3) == ()


def test_an_expensive_cut_is_avoided() -> None:
    costs = Costs(step_ms=(5.0, 1.0, 5.0), positions=(1, 2), cut_ms=(4.0, 0.0))
    assert partition(costs, 2) == (2,)


def test_five_thousand_steps_are_partitioned_in_reasonable_time() -> None:
    steps = tuple(float(1 + index % 7) for index in range(2000))
    costs = Costs(step_ms=steps, positions=tuple(range(1, 2000)), cut_ms=(0.0,) * 1999)
    assert len(partition(costs, 4)) == 3


def test_the_smallest_number_of_blocks_that_meets_the_wanted_bound_is_chosen() -> None:
    assert choose_num_blocks(SplitRequest(max_block_ms=30.0), [100.0, 55.0, 40.0, 28.0, 25.0]) == 4


def test_a_bound_below_the_largest_operator_gives_the_best_there_is() -> None:
    assert choose_num_blocks(SplitRequest(max_block_ms=1.0), [100.0, 55.0, 48.0, 48.0, 48.0]) == 3


def test_left_alone_a_long_model_gets_blocks_of_about_ten_milliseconds() -> None:
    curve = [120.0 / count for count in range(1, 30)]
    assert choose_num_blocks(SplitRequest(), curve) == 11


def test_left_alone_a_short_model_gets_three_blocks() -> None:
    assert choose_num_blocks(SplitRequest(), [9.0, 4.6, 3.1, 2.3]) == 3


def test_left_alone_a_model_with_one_long_operator_gets_a_few_more_blocks_than_its_longest_needs() -> None:
    assert choose_num_blocks(SplitRequest(), [72.0, 37.0, 25.0, 24.0, 24.0, 24.0]) == 5
