"""Generated graphs with operators sliced at random, cut anywhere: the chain equals the whole model."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from split_tool.sessions import Target, open_session, session_options
from split_tool.slice_bench import channel_block
from split_tool.slice_parts import Slicing
from split_tool.slice_ways import slice_ways
from split_tool.slicing import sliced_target
from split_tool.source import Source, read_source
from tests.integration.split_tool.cut_everywhere import DEVICE, outputs_at_every_cut, target_of
from tests.integration.split_tool.tiny_models import model, value, weight

SHAPE = (2, 32, 6, 32)
WEIGHTS = {
    "Conv": [("w", (32, 32, 3, 3)), ("b", (32,))],
    "grouped": [("w", (32, 1, 3, 3)), ("b", (32,))],
    "ConvTranspose": [("w", (32, 32, 3, 3)), ("b", (32,))],
    "MatMul": [("w", (32, 32))],
    "Gemm": [("w", (48, 32 * 6 * 32)), ("b", (48,))],
}
ATTRIBUTES = {
    "Conv": {"pads": [1, 1, 1, 1]},
    "grouped": {"pads": [1, 1, 1, 1], "group": 32},
    "ConvTranspose": {"pads": [1, 1, 1, 1]},
    "LRN": {"size": 3},
    "Gemm": {"transB": 1},
}


def operator(kind: str, reads: list[str], name: str) -> tuple[NodeProto, list[TensorProto]]:
    weights = [scaled(f"{name}-{which}", shape, seed=len(name)) for which, shape in WEIGHTS.get(kind, [])]
    inputs = [*reads, *(tensor.name for tensor in weights)]
    return helper.make_node(kind if kind != "grouped" else "Conv", inputs, [name], **ATTRIBUTES.get(kind, {})), weights


def scaled(name: str, shape: tuple[int, ...], *, seed: int) -> TensorProto:
    """A weight that keeps numbers near 1: float32 errors of larger ones would be all that a Tanh leaves."""
    numbers = numpy_helper.to_array(weight(name, *shape, seed=seed))
    return numpy_helper.from_array(numbers / np.float32(max(1.0, 0.3 * np.sqrt(np.prod(shape[1:])))), name)


@st.composite
def models(draw: st.DrawFn) -> ModelProto:
    values, nodes, weights = ["x"], [], []
    for index in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["Conv", "grouped", "ConvTranspose", "MatMul", "LRN", "Add", "Tanh"]))
        reads = [draw(st.sampled_from(values)) for _ in range(2 if kind == "Add" else 1)]
        node, own = operator(kind, reads, f"v{index}")
        nodes.append(node)
        weights += own
        values.append(f"v{index}")
    nodes.append(helper.make_node("Flatten", [values[-1]], ["flat"]))
    node, own = operator("Gemm", ["flat"], "y")
    outputs = [value("y", (2, 48)), value(draw(st.sampled_from(values[1:])), SHAPE)]
    return model([*nodes, node], [value("x", SHAPE)], outputs, [*weights, *own])


def sliced_at_random(target: Target, draw: st.DrawFn) -> Target:
    """Every operator that can be sliced, in two or three parts along one of its axes."""
    graph = target.model.graph
    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    slicings = {}
    for index, node in enumerate(graph.node):
        shape = (2, 32 * 6 * 32) if "Gemm" in node.op_type else SHAPE
        ways = slice_ways(node, weights, shape)
        if ways:
            way = draw(st.sampled_from(ways))
            count = draw(st.integers(2, min(3, way.max_slices)))
            slicings[index] = Slicing(way=way, num_slices=count, input_shape=shape)
    return sliced_target(target, slicings, channel_block(DEVICE))


def whole_outputs(source: Source, target: Target, x: np.ndarray) -> list[np.ndarray]:
    options = session_options(DEVICE, optimise=False)
    session = open_session(target.model, DEVICE, options, external_folder=target.folder)
    return session.run([spec.name for spec in source.outputs], {"x": x})


@settings(deadline=None, max_examples=12)
@given(st.data(), models(), st.sampled_from(["user", "optimised"]), st.integers(1, 6))
def test_a_chain_of_blocks_with_sliced_operators_equals_the_whole_model(
    data: st.DataObject, made: ModelProto, kind: str, num_cuts: int
) -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(made, Path(folder) / "m.onnx")
        source = read_source(Path(folder) / "m.onnx")
        target = target_of(source, kind, Path(folder))
        sliced = sliced_at_random(target, data.draw)
        results = outputs_at_every_cut(source, sliced, [{"x": x}], Path(folder), seeded=False, limit=num_cuts)
        expected = whole_outputs(source, target, x)
    for (got,) in results.values():
        for one, whole in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, whole, rtol=1e-4, atol=1e-5 * np.abs(whole).max())
