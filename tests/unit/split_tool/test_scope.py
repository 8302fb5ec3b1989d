"""Captures, functions and chance."""

from __future__ import annotations

from onnx import NodeProto, helper

from split_tool.scope import Functions, captured_names, draws_random


def branch(nodes: list[NodeProto], output: str) -> object:
    return helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info(output, 1, None)])


def test_names_captured_two_levels_deep_are_found_and_inner_names_hide_outer_ones() -> None:
    inner_if = helper.make_node(
        "If",
        ["c"],
        ["z"],
        then_branch=branch([helper.make_node("Add", ["deep", "local"], ["t"])], "t"),
        else_branch=branch([helper.make_node("Neg", ["shadow"], ["e"])], "e"),
    )
    body = helper.make_graph(
        [helper.make_node("Relu", ["i"], ["local"]), inner_if],
        "body",
        [helper.make_tensor_value_info(name, 1, None) for name in ("i", "c", "shadow")],
        [helper.make_tensor_value_info(name, 1, None) for name in ("c", "z", "outer_result")],
    )
    loop = helper.make_node("Loop", ["trips", "", "start"], ["end"], body=body)
    assert set(captured_names(loop)) == {"deep", "outer_result"}


def test_functions_are_reached_through_branches_and_other_functions_by_domain_name_and_overload() -> None:
    def function(name: str, calls: str, overload: str = "") -> object:
        return helper.make_function(
            "local", name, ["a"], ["b"], [helper.make_node(calls, ["a"], ["b"], domain="local")], [], overload=overload
        )

    functions = Functions([function("Outer", "Inner"), function("Inner", "Leaf"), function("Inner", "Leaf", "two")])
    call = helper.make_node("Outer", ["x"], ["y"], domain="local")
    hidden = helper.make_node("If", ["c"], ["y"], then_branch=branch([call], "y"), else_branch=branch([call], "y"))
    assert [(f.name, f.overload) for f in functions.reached([hidden])] == [("Outer", ""), ("Inner", "")]


def test_a_random_operator_inside_a_branch_makes_the_node_random() -> None:
    draw = helper.make_node("RandomNormal", [], ["t"], shape=[2])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch([draw], "t"), else_branch=branch([draw], "t"))
    assert Functions([]).is_random(node)


def test_a_dropout_that_cannot_be_switched_to_training_is_not_random() -> None:
    assert not draws_random(helper.make_node("Dropout", ["x", "ratio"], ["y"]))
    assert draws_random(helper.make_node("Dropout", ["x", "ratio", "training"], ["y"]))
