"""Cuts, live values and orders, on graphs of names alone."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from split_tool.errors import ModelRefusedError
from split_tool.graph import CutGraph, Operator


def op(reads: str, writes: str, *, role: str = "compute", is_random: bool = False) -> Operator:
    return Operator(reads=tuple(reads.split()), writes=tuple(writes.split()), role=role, is_random=is_random)


def graph(operators: list[Operator], outputs: str, *, inputs: str = "x", constants: str = "w") -> CutGraph:
    return CutGraph(operators, inputs=inputs.split(), constants=constants.split(), outputs=outputs.split())


def test_only_what_is_read_later_is_alive_at_a_cut() -> None:
    cuts = graph([op("x w", "a"), op("a", "b c"), op("b a", "d"), op("d", "y")], "y")
    assert [cuts.live(position) for position in (1, 2, 3)] == [("a",), ("a", "b"), ("d",)]


def test_a_model_input_read_late_comes_from_the_request_and_does_not_cross() -> None:
    cuts = graph([op("x", "a"), op("a x", "y")], "y")
    assert cuts.live(1) == ("a",)
    assert cuts.block(1, 2).inputs == ("a", "x")


def test_constant_operators_are_copied_into_each_block_that_reads_them() -> None:
    cuts = graph([op("w", "k"), op("k", "k2"), op("x k2", "a"), op("a k", "y")], "y")
    assert cuts.num_steps == 2
    assert cuts.live(1) == ("a",)
    assert cuts.block(0, 1).operators == (0, 1, 2)
    assert cuts.block(1, 2).operators == (0, 3)


def test_a_random_operator_without_inputs_is_no_constant() -> None:
    cuts = graph([op("", "noise", is_random=True), op("x noise", "a"), op("a noise", "y")], "y")
    assert cuts.num_steps == 3
    assert cuts.live(2) == ("noise", "a")


def test_a_dequantiser_goes_with_its_readers_and_the_small_value_crosses() -> None:
    operators = [op("x", "a"), op("a w", "q", role="quantise"), op("q w", "d", role="dequantise"), op("d", "b")]
    cuts = graph([*operators, op("b d", "y")], "y")
    assert cuts.live(2) == ("q",)
    assert cuts.live(3) == ("q", "b")
    assert cuts.block(3, 4).operators == (2, 4)
    assert cuts.parting_positions() == {1}


def test_dead_operators_never_run() -> None:
    cuts = graph([op("x", "a"), op("a", "unused"), op("unused", "more"), op("a", "y")], "y")
    assert cuts.num_steps == 2
    assert cuts.block(0, 2).operators == (0, 3)


def test_an_intermediate_value_that_is_an_output_leaves_its_block_and_still_crosses() -> None:
    cuts = graph([op("x", "mid"), op("mid", "y")], "y mid")
    assert cuts.block(0, 1).outputs == ("mid",)
    assert cuts.block(1, 2).outputs == ("y",)


def test_a_constant_output_comes_from_the_last_block() -> None:
    cuts = graph([op("x", "a"), op("a", "y")], "w y y")
    assert cuts.block(0, 1).outputs == ("a",)
    assert cuts.block(1, 2).outputs == ("y", "w")
    assert cuts.block(1, 2).constants == ("w",)


def test_a_graph_without_operators_is_one_block_that_forwards() -> None:
    cuts = graph([], "x")
    assert cuts.block(0, 0).inputs == ("x",)
    assert cuts.block(0, 0).outputs == ("x",)


def test_unsorted_operators_are_put_in_order() -> None:
    cuts = graph([op("b", "y"), op("a", "b"), op("x", "a")], "y")
    assert cuts.steps == (2, 1, 0)


def test_a_cycle_is_refused_and_its_values_are_named() -> None:
    with pytest.raises(ModelRefusedError, match=r"'a' -> 'b' -> 'a'|'b' -> 'a' -> 'b'"):
        graph([op("x b", "a"), op("a", "b"), op("b", "y")], "y")


def test_a_wide_fan_listed_breadth_first_is_ordered_branch_by_branch() -> None:
    first = [op("x", f"a{index}") for index in range(40)]
    second = [op(f"a{index}", f"b{index}") for index in range(40)]
    sums = [op(f"b{index} s{index - 1}" if index else "b0", f"s{index}") for index in range(40)]
    cuts = graph([*first, *second, *sums], "s39")
    assert max(len(cuts.live(position)) for position in range(1, cuts.num_steps)) < 45


def test_a_ladder_with_2_to_the_40_paths_and_5000_operators_in_a_row_take_no_time() -> None:
    begin_s = time.perf_counter()
    ladder = [op(f"p{i} q{i}" if i else "x", f"p{i + 1}") for i in range(40)]
    ladder += [op(f"p{i} q{i}" if i else "x", f"q{i + 1}") for i in range(40)]
    assert len(graph([*reversed(ladder), op("p40 q40", "y")], "y").live(41)) <= 3
    chain = [op(f"v{index}", f"v{index + 1}") for index in range(5000)]
    assert graph(chain, "v5000", inputs="v0").live(2500) == ("v2500",)
    assert time.perf_counter() - begin_s < 2


@st.composite
def random_graphs(draw: st.DrawFn) -> tuple[list[Operator], list[str]]:
    values = ["x", "w"]
    operators = []
    for index in range(draw(st.integers(1, 12))):
        reads = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True))
        made = [f"v{index}", f"u{index}"][: draw(st.integers(1, 2))]
        operators.append(Operator(reads=tuple(reads), writes=tuple(made)))
        values += made
    outputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    return draw(st.permutations(operators)), outputs


@given(random_graphs(), st.data())
def test_blocks_read_only_what_the_request_or_earlier_blocks_give(
    case: tuple[list[Operator], list[str]], data: st.DataObject
) -> None:
    operators, outputs = case
    cuts = graph(operators, " ".join(outputs))
    places = sorted({0, cuts.num_steps, *data.draw(st.sets(st.integers(0, cuts.num_steps), max_size=4))})
    places = places if len(places) > 1 else [0, 0]
    known = {"x"}
    ran: list[int] = []
    for start, stop in pairwise(places):
        block = cuts.block(start, stop)
        assert set(block.inputs) <= known
        inside = set(block.inputs) | set(block.constants)
        for index in block.operators:
            assert set(operators[index].reads) <= inside
            inside.update(operators[index].writes)
        assert set(block.outputs) <= inside
        assert set(cuts.live(stop)) <= known | set(block.outputs)
        known.update(block.outputs)
        ran += [index for index in block.operators if index in cuts.steps]
    assert set(outputs) <= known
    assert len(ran) == len(set(ran)) == cuts.num_steps
