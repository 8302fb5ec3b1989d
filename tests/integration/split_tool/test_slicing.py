"""Slicing inside an operator: the parts together give what the operator gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, helper

import split_tool
from split_tool.sessions import (
    MIN_EXTERNAL_BYTES,
    Device,
    Target,
    open_session,
    optimised_target,
    session_options,
)
from split_tool.slice_bench import channel_block
from split_tool.slice_parts import Slicing
from split_tool.slice_ways import SliceWay, Window, slice_ways
from split_tool.slicing import sliced_target
from split_tool.source import read_source
from tests.integration.split_tool.tiny_models import model, value, weight

DEVICE = Device()
IMAGE = (1, 16, 9, 10)
WIDE = (2, 64, 9, 10)


def convolution(**attributes: Any) -> ModelProto:
    group = attributes.get("group", 1)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)
    weights = [weight("w", 64, 16 // group, 3, 3), weight("b", 64)]
    return model([node], [value("x", IMAGE)], [helper.make_tensor_value_info("y", 1, None)], weights)


def one_node(node: NodeProto, shape: tuple[int, ...], *weights: onnx.TensorProto) -> ModelProto:
    return model([node], [value("x", shape)], [helper.make_tensor_value_info("y", 1, None)], weights)


def adding() -> ModelProto:
    """A convolution and what is added to it, one operator in the optimised graph."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["skip"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["skip", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "skip"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    weights = [weight("w", 64, 64, 3, 3), weight("b", 64)]
    return model(nodes, [value("x", WIDE)], [helper.make_tensor_value_info("y", 1, None)], weights)


MODELS = {
    "padded": convolution(pads=[1, 1, 1, 1]),
    "strided": convolution(pads=[2, 1, 0, 1], strides=[2, 1]),
    "dilated": convolution(dilations=[3, 2], pads=[3, 0, 3, 0]),
    "valid": convolution(auto_pad="VALID"),
    "grouped": convolution(group=2),
    "in groups": one_node(
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], group=4), WIDE, weight("w", 128, 16, 3, 3)
    ),
    "each channel alone": one_node(
        helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1], group=64),
        WIDE,
        weight("w", 64, 1, 3, 3),
        weight("b", 64),
    ),
    "adding": adding(),
    "few channels": one_node(
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]), (1, 3, 9, 10), weight("w", 32, 3, 3, 3)
    ),
    "along a line": one_node(helper.make_node("Conv", ["x", "w"], ["y"]), (1, 4, 40), weight("w", 32, 4, 5)),
    "transposed": one_node(
        helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[2, 2]),
        IMAGE,
        weight("w", 16, 32, 2, 2),
        weight("b", 32),
    ),
    "matmul": one_node(helper.make_node("MatMul", ["x", "w"], ["y"]), (2, 3, 8), weight("w", 8, 80)),
    "gemm": one_node(helper.make_node("Gemm", ["x", "w", "b"], ["y"]), (3, 8), weight("w", 8, 48), weight("b", 48)),
    "gemm transposed": one_node(
        helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1, alpha=0.5),
        (3, 8),
        weight("w", 48, 8),
        weight("b", 1),
    ),
    "lrn": one_node(helper.make_node("LRN", ["x"], ["y"], size=5), IMAGE),
}


def targets(made: ModelProto, kind: str, folder: Path) -> Target:
    onnx.save(made, folder / "m.onnx")
    source = read_source(folder / "m.onnx")
    if kind == "optimised":
        return optimised_target(source, DEVICE, folder)
    return Target(model=source.model, folder=folder, is_optimised=False)


def assert_same(got: np.ndarray, expected: np.ndarray, *, is_exact: bool) -> None:
    """The same bits; rows of a plain convolution may be summed up in another order."""
    if is_exact:
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["user", "optimised"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_parts_of_an_operator_give_what_it_gives(name: str, kind: str, tmp_path: Path) -> None:
    target = targets(MODELS[name], kind, tmp_path)
    weights = {tensor.name: tuple(tensor.dims) for tensor in target.model.graph.initializer}
    shape = tuple(d.dim_value for d in target.model.graph.input[0].type.tensor_type.shape.dim)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    options = session_options(DEVICE, optimise=False)
    (expected,) = open_session(target.model, DEVICE, options, external_folder=target.folder).run(None, {"x": x})
    ways: set[tuple[str, int]] = set()
    for index, node in enumerate(target.model.graph.node):
        for way in slice_ways(node, weights, shape):
            for num_slices in {2, min(3, way.max_slices)}:
                slicing = Slicing(way=way, num_slices=num_slices, input_shape=shape)
                made = sliced_target(target, {index: slicing}, channel_block(DEVICE))
                options = session_options(DEVICE, optimise=False)
                session = open_session(made.model, DEVICE, options, external_folder=made.folder)
                (got,) = session.run(None, {"x": x})
                if kind == "optimised":
                    assert max(len(tensor.raw_data) for tensor in made.model.graph.initializer) < MIN_EXTERNAL_BYTES
                assert_same(got, expected, is_exact=kind == "optimised" or way.axis != "rows")
                ways.add((way.axis, sum(map(bool, node.input))))
    expected_ways = {"in groups": {"channels", "rows"}, "each channel alone": {"channels", "rows"}}
    assert {axis for axis, _ in ways} >= expected_ways.get(name, set())
    assert ways
    if name == "adding" and kind == "optimised":
        assert {("channels", 4), ("rows", 4)} <= ways


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("Conv", ["x", "made"], ["y"]),
        helper.make_node("MatMul", ["w", "x"], ["y"]),
        helper.make_node("Relu", ["x"], ["y"]),
    ],
)
def test_an_operator_whose_parts_depend_on_each_other_or_on_the_request_is_left_whole(node: NodeProto) -> None:
    assert slice_ways(node, {"w": (64, 16, 3, 3), "b": (64,)}, IMAGE) == ()


@given(st.integers(16, 3000), st.integers(2, 20))
def test_sizes_of_parts_are_even_whole_units_and_add_up(length: int, num_slices: int) -> None:
    way = SliceWay(axis="channels", length=length, units=(64, 32, 16))
    if num_slices > way.max_slices:
        return
    sizes = way.sizes(num_slices)
    assert len(sizes) == num_slices
    assert sum(sizes) == length
    assert all(size > 0 and size % 16 == 0 for size in sizes[:-1])
    assert max(sizes) <= length / num_slices * 1.15 + 63


@given(
    st.integers(1, 40), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(0, 4), st.integers(0, 4)
)
def test_the_rows_of_a_part_are_those_that_its_kernel_reaches(
    length: int, kernel: int, stride: int, dilation: int, before: int, after: int
) -> None:
    window = Window(kernel=kernel, stride=stride, dilation=dilation, before=before, after=after)
    num_rows = window.output_length(length)
    for start in range(max(num_rows, 0)):
        first, last, padding_before, padding_after = window.rows(start, start + 1, length)
        taps = [start * stride - before + tap * dilation for tap in range(kernel)]
        inside = [tap for tap in taps if 0 <= tap < length]
        if inside:
            assert first <= min(inside)
            assert last > max(inside)
        assert padding_before == max(0, -taps[0])
        assert padding_after == max(0, taps[-1] + 1 - length)


def test_an_operator_longer_than_the_wanted_block_is_sliced_and_the_plan_says_so(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    shape = (1, 64, 56, 56)
    made = model(nodes, [value("x", shape)], [value("y", (1, 128, 56, 56))], [weight("w", 128, 64, 3, 3)])
    onnx.save(made, tmp_path / "big.onnx")
    whole = split_tool.split(tmp_path / "big.onnx", tmp_path / "whole", blocks=1, budget_s=0.05)
    plan = split_tool.split(
        tmp_path / "big.onnx", tmp_path / "plan", max_block_ms=0.6 * whole.isolated_ms, budget_s=0.05
    )
    assert plan.sliced
    assert plan.sliced[0].num_slices >= 2
    assert len(plan.blocks) >= 2
    assert any("sliced inside" in note for note in plan.notes)
    assert plan.proof.max_abs_difference < 1e-4
