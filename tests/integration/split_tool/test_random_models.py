"""Generated graphs with shared weights, skips, branches and several outputs: the chain equals the whole."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import NodeProto, helper

from split_tool.source import read_source
from tests.integration.split_tool.cut_everywhere import outputs_at_every_cut, target_of
from tests.integration.split_tool.tiny_models import model, value, weight


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    values = ["x", "w0", "w1"]
    nodes: list[NodeProto] = [helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0)]
    nodes.append(helper.make_node("Cast", ["total"], ["is_positive"], to=onnx.TensorProto.BOOL))
    for index in range(draw(st.integers(1, 8))):
        first, second = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        kind = draw(st.sampled_from(["Add", "Mul", "Relu", "MatMul", "If"]))
        name = f"v{index}"
        if kind == "Relu":
            nodes.append(helper.make_node("Relu", [first], [name]))
        elif kind == "MatMul":
            nodes.append(helper.make_node("MatMul", [first, draw(st.sampled_from(["w0", "w1"]))], [name]))
        elif kind == "If":
            branches = {
                which: helper.make_graph(
                    [helper.make_node(op, reads, ["r"])], which, [], [helper.make_tensor_value_info("r", 1, None)]
                )
                for which, op, reads in (("then_branch", "Tanh", [first]), ("else_branch", "Add", [first, second]))
            }
            nodes.append(helper.make_node("If", ["is_positive"], [name], **branches))
        else:
            nodes.append(helper.make_node(kind, [first, second], [name]))
        values.append(name)
    outputs = draw(st.lists(st.sampled_from(values[3:]), min_size=1, max_size=3, unique=True))
    return model(
        nodes, [value("x", (8, 8))], [value(name, (8, 8)) for name in outputs], [weight("w0", 8, 8), weight("w1", 8, 8)]
    )


@settings(deadline=None, max_examples=25)
@given(models(), st.sampled_from(["user", "optimised"]))
def test_a_chain_of_blocks_equals_the_whole_model(made: onnx.ModelProto, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "m.onnx"
        onnx.save(made, file)
        source = read_source(file)
        feeds = [{"x": np.random.default_rng(seed).standard_normal((8, 8)).astype(np.float32)} for seed in range(2)]
        results = outputs_at_every_cut(
            source, target_of(source, kind, Path(folder)), feeds, Path(folder), seeded=False, limit=20
        )
    for outputs in results.values():
        for got, expected in zip(outputs, results[()], strict=True):
            for one, other in zip(got, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
