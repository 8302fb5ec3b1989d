"""Cutting inside an If: the pieces together give what the If gives, whichever branch runs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

import split_tool
from split_tool.branches import BRANCHES, BranchPieces, body_of, pieces_of
from split_tool.model_graph import cut_graph
from split_tool.plan import TensorSpec
from tests.integration.split_tool.tiny_models import model, value, weight

OUTSIDE = ("x", "outer", "w")
"""What a branch captures: a model input, a value made before the If, and a weight of the main graph."""


def branch(name: str, nodes: list[NodeProto], outputs: list[str], own_weight: str) -> GraphProto:
    results = [helper.make_tensor_value_info(output, 1, None) for output in outputs]
    return helper.make_graph(nodes, name, [], results, [weight(own_weight, 8, 8, seed=3)])


def inner_if(reads: str, output: str) -> NodeProto:
    """An If inside a branch that captures a value of the branch."""
    bodies = {
        which: helper.make_graph(
            [helper.make_node(kind, [reads], ["deep"]), helper.make_node("Mul", ["deep", reads], ["inner"])],
            which,
            [],
            [helper.make_tensor_value_info("inner", 1, None)],
        )
        for which, kind in zip(BRANCHES, ("Tanh", "Relu"), strict=True)
    }
    return helper.make_node("If", ["condition"], [output], **bodies)


@st.composite
def branches(draw: st.DrawFn, which: str) -> GraphProto:
    """A branch of some operators over outer values, its own weight and what it made before, with two outputs."""
    own = f"{which}-w"
    values = [*OUTSIDE, own]
    nodes: list[NodeProto] = []
    for index in range(draw(st.integers(2, 7))):
        name = f"v{index}"  # the same names in both branches
        first, second = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        kind = draw(st.sampled_from(["Add", "Mul", "MatMul", "Tanh", "If"]))
        if kind == "If":
            nodes.append(inner_if(first, name))
        else:
            nodes.append(helper.make_node(kind, [first] if kind == "Tanh" else [first, second], [name]))
        values.append(name)
    made = values[len(OUTSIDE) + 1 :]
    outputs = draw(st.lists(st.sampled_from(made), min_size=2, max_size=2, unique=True))
    return branch(which, nodes, outputs, own)


def with_if(ifs: list[NodeProto]) -> ModelProto:
    """A model around an If, or around the Ifs that take its place."""
    nodes = [helper.make_node("Exp", ["x"], ["outer"]), *ifs, helper.make_node("Sub", ["one", "two"], ["y"])]
    inputs = [value("x", (8, 8)), value("condition", (), TensorProto.BOOL)]
    outputs = [value("y", (8, 8)), value("one", (8, 8))]
    return model(nodes, inputs, outputs, [weight("w", 8, 8)])


def outputs_of(made: ModelProto, condition: bool) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    session = ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x, "condition": np.asarray(condition)})


def cut_at(body: GraphProto, draw: st.DrawFn) -> BranchPieces:
    weights = [*body.initializer, weight("w", 8, 8)]
    graph = cut_graph(model(body.node, [value(name) for name in ("x", "outer", "condition")], body.output, weights))
    names = {name for node in body.node for name in node.output}
    positions = st.lists(st.integers(1, max(1, graph.num_steps - 1)), max_size=3, unique=True)
    cuts = tuple(sorted(at for at in draw(positions) if at < graph.num_steps))
    types = {name: TensorSpec(name=name, dtype="float32", shape=None) for name in names}
    return BranchPieces(body=body, graph=graph, cuts=cuts, types=types)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_the_pieces_of_an_if_give_what_it_gives_whichever_branch_runs(data: st.DataObject) -> None:
    bodies = {which: data.draw(branches(which)) for which in BRANCHES}
    node = helper.make_node("If", ["condition"], ["one", "two"], **bodies)
    pieces = pieces_of(node, {which: cut_at(body_of(node, which), data.draw) for which in BRANCHES})
    for condition in (True, False):
        expected = outputs_of(with_if([node]), condition)
        for got, whole in zip(outputs_of(with_if(pieces), condition), expected, strict=True):
            np.testing.assert_array_equal(got, whole)


def long_if() -> ModelProto:
    """An If whose branches multiply matrices."""
    bodies = {}
    for which, last in zip(BRANCHES, ("Tanh", "Sigmoid"), strict=True):
        names = ["outer", *(f"{which}-{index}" for index in range(6))]
        nodes = [helper.make_node("MatMul", [one, "w"], [other]) for one, other in pairwise(names)]
        nodes.append(helper.make_node(last, [names[-1]], ["r"]))
        bodies[which] = branch(which, nodes, ["r"], f"{which}-w")
    node = helper.make_node("If", ["condition"], ["y"], **bodies)
    inputs = [value("x", (128, 256)), value("condition", (), TensorProto.BOOL)]
    nodes = [helper.make_node("Relu", ["x"], ["outer"]), node]
    return model(nodes, inputs, [value("y", ("rows", 256))], [weight("w", 256, 256)])


@pytest.mark.parametrize("graph", ["user", "optimised"])
def test_an_if_longer_than_the_wanted_block_is_cut_inside_both_branches(graph: str, tmp_path: Path) -> None:
    onnx.save(long_if(), tmp_path / "m.onnx")
    plan = split_tool.split(tmp_path / "m.onnx", tmp_path / "plan", max_block_ms=0.5, graph=graph, budget_s=0.05)
    assert [(one.op_type, one.axis, one.output) for one in plan.sliced] == [("If", "branches", "y")]
    assert len(plan.blocks) >= 2
    assert plan.proof.verdict == "bit-identical"
    whole = ort.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    for condition in (True, False):
        x = np.random.default_rng(1).standard_normal((128, 256)).astype(np.float32)
        feeds = {"x": x, "condition": np.asarray(condition)}
        (got,) = split_tool.run_chain(plan, tmp_path / "plan", feeds)
        np.testing.assert_array_equal(got, whole.run(None, feeds)[0])


def test_a_branch_that_does_not_run_with_the_measured_inputs_is_taken_whole(tmp_path: Path) -> None:
    made = long_if()
    far = body_of(made.graph.node[1], "else_branch")
    far.initializer.append(numpy_helper.from_array(np.asarray([1000]), "row"))
    far.node[-1].CopyFrom(helper.make_node("Gather", ["else_branch-5", "row"], ["r"]))  # there is no such row
    onnx.save(made, tmp_path / "m.onnx")
    x = np.random.default_rng(1).standard_normal((128, 256)).astype(np.float32)
    feeds = {"x": x, "condition": np.asarray(True)}
    plan = split_tool.split(tmp_path / "m.onnx", tmp_path / "plan", max_block_ms=0.5, samples=feeds, budget_s=0.05)
    assert [(one.op_type, one.axis) for one in plan.sliced] == [("If", "branches")]
    last = onnx.load(tmp_path / "plan" / plan.blocks[-1].file).graph.node[-1]
    assert len(body_of(last, "else_branch").node) >= 7


def test_an_if_that_draws_random_numbers_stays_whole(tmp_path: Path) -> None:
    made = long_if()
    body_of(made.graph.node[1], "then_branch").node[-1].CopyFrom(
        helper.make_node("RandomNormalLike", ["then_branch-5"], ["r"])
    )
    onnx.save(made, tmp_path / "m.onnx")
    plan = split_tool.split(tmp_path / "m.onnx", tmp_path / "plan", max_block_ms=0.5, budget_s=0.05)
    assert plan.sliced == ()
