"""The partition is exact, and the choice of the number of blocks follows what was asked."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from split_tool.choose import choose_num_blocks, knee
from split_tool.partition import Costs, longest_by_blocks, partition, price_ms, thinned
from split_tool.plan import SplitRequest


@st.composite
def small_costs(draw: st.DrawFn) -> Costs:
    steps = draw(st.lists(st.integers(1, 30).map(float), min_size=1, max_size=9))
    positions = tuple(sorted(draw(st.sets(st.integers(1, len(steps) - 1))))) if len(steps) > 1 else ()
    cut_ms = tuple(draw(st.integers(0, 8).map(float)) for _ in positions)
    return Costs(step_ms=tuple(steps), positions=positions, cut_ms=cut_ms)


def longest(costs: Costs, cuts: tuple[int, ...]) -> float:
    return max(costs.block_ms(start, stop) for start, stop in pairwise([0, *cuts, len(costs.step_ms)]))


@given(small_costs(), st.integers(1, 5), st.floats(0.0, 60.0), st.floats(0.1, 3.0))
def test_the_partition_is_as_good_as_exhaustive_search(
    costs: Costs, num_blocks: int, bound_ms: float, factor: float
) -> None:
    costs = replace(costs, step_ms=tuple(time_ms * factor for time_ms in costs.step_ms))
    num_blocks = min(num_blocks, len(costs.positions) + 1)
    ways = list(combinations(costs.positions, num_blocks - 1))
    bound_ms = max(bound_ms, min(longest(costs, cuts) for cuts in ways))
    best = min(price_ms(costs, cuts) for cuts in ways if longest(costs, cuts) <= bound_ms * (1 + 1e-12))
    cuts = partition(costs, num_blocks, bound_ms=bound_ms)
    assert len(cuts) == num_blocks - 1
    assert longest(costs, cuts) <= bound_ms * (1 + 1e-12)
    assert price_ms(costs, cuts) == pytest.approx(best)


@given(small_costs())
def test_the_trade_off_curve_names_the_longest_block_of_each_partition(costs: Costs) -> None:
    for count, longest_ms in enumerate(longest_by_blocks(costs, 6), start=1):
        assert longest(costs, partition(costs, count)) == pytest.approx(longest_ms)


@given(small_costs(), st.integers(1, 6))
def test_thinning_keeps_the_cheapest_places_and_every_partition_of_it_is_one_of_the_whole(
    costs: Costs, max_positions: int
) -> None:
    thin = thinned(costs, max_positions)
    assert len(thin.positions) == min(max_positions, len(costs.positions))
    edges = dict(zip(costs.positions, costs.cut_ms, strict=True))
    assert [edges[position] for position in thin.positions] == list(thin.cut_ms)
    assert min(thin.cut_ms, default=0.0) == min(costs.cut_ms, default=0.0)
    for whole_ms, thin_ms in zip(longest_by_blocks(costs, 4), longest_by_blocks(thin, 4), strict=False):
        assert thin_ms >= whole_ms - 1e-9


def test_more_blocks_than_places_give_as_many_as_there_are() -> None:
    costs = Costs(step_ms=(1.0, 2.0, 3.0), positions=(1,), cut_ms=(0.0,))
    assert partition(costs, 5) == (1,)


def test_a_graph_without_steps_is_one_block() -> None:
    costs = Costs(step_ms=(), positions=(), cut_ms=())
    assert partition(costs, 3) == ()


def test_an_expensive_cut_is_avoided() -> None:
    costs = Costs(step_ms=(5.0, 1.0, 5.0), positions=(1, 2), cut_ms=(4.0, 0.0))
    assert partition(costs, 2) == (2,)


def test_where_the_bound_allows_it_a_cheaper_cut_beats_an_even_one() -> None:
    costs = Costs(step_ms=(4.0, 1.0, 5.0), positions=(1, 2), cut_ms=(0.1, 1.0))
    assert partition(costs, 2) == (2,)
    assert partition(costs, 2, bound_ms=7.0) == (1,)


def test_five_thousand_steps_are_partitioned_in_reasonable_time() -> None:
    steps = tuple(float(1 + index % 7) for index in range(5000))
    costs = Costs(step_ms=steps, positions=tuple(range(1, 5000)), cut_ms=(0.0,) * 4999)
    assert len(partition(costs, 8)) == 7


def no_cost(count: int) -> float:
    return 0.0


def test_the_smallest_number_of_blocks_that_meets_the_wanted_bound_is_chosen() -> None:
    assert choose_num_blocks(SplitRequest(max_block_ms=30.0), [100.0, 55.0, 40.0, 28.0, 25.0], no_cost) == 4


def test_a_bound_below_the_largest_operator_gives_the_best_there_is() -> None:
    assert choose_num_blocks(SplitRequest(max_block_ms=1.0), [100.0, 55.0, 48.0, 48.0, 48.0], no_cost) == 3


def test_left_alone_a_model_is_cut_while_the_longest_block_shrinks_by_ten_times_what_a_cut_costs() -> None:
    curve = [120.0 / count for count in range(1, 30)]
    assert choose_num_blocks(SplitRequest(), curve, lambda count: 0.1 * (count - 1)) == 11
    short = [9.0 / count for count in range(1, 30)]
    assert choose_num_blocks(SplitRequest(), short, lambda count: 0.1 * (count - 1)) == 3
    assert choose_num_blocks(SplitRequest(), short, lambda count: 1.0 * (count - 1)) == 1


def test_left_alone_a_model_with_one_long_operator_gets_a_few_more_blocks_than_its_longest_needs() -> None:
    curve = [72.0, 37.0, 25.0, 24.0, 24.0, 24.0]
    assert choose_num_blocks(SplitRequest(), curve, lambda count: 0.2 * (count - 1)) == 5


@given(
    st.lists(st.floats(0.1, 100.0), min_size=1, max_size=12).map(lambda values: sorted(values, reverse=True)),
    st.lists(st.floats(0.0, 5.0), min_size=12, max_size=12),
)
def test_the_knee_is_the_best_of_all_numbers_of_blocks_for_cuts_of_one_price(
    longest_ms: list[float], prices_ms: list[float]
) -> None:
    price_ms = prices_ms[0]
    scores = [value + 10.0 * price_ms * count for count, value in enumerate(longest_ms)]
    found = knee(longest_ms, lambda count: price_ms * (count - 1))
    assert scores[found - 1] == pytest.approx(min(scores))
