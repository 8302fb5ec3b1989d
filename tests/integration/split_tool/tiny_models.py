"""Small ONNX models for the tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def value(name: str, shape: Sequence[int | str] = ("n", 8), dtype: int = FLOAT) -> ValueInfoProto:
    """A tensor input or output."""
    return helper.make_tensor_value_info(name, dtype, list(shape))


def weight(name: str, *shape: int, seed: int = 0) -> TensorProto:
    """A small random float32 initializer."""
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * np.float32(0.3)
    return numpy_helper.from_array(numbers, name)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    weights: Sequence[TensorProto] = (),
    *,
    ir_version: int = 10,
) -> ModelProto:
    """A model of opset 18."""
    graph = helper.make_graph(list(nodes), "test", list(inputs), list(outputs), list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=ir_version)


def perceptron(num_layers: int = 4) -> ModelProto:
    """``MatMul`` and ``Relu`` in turns, 8 wide, one skip connection from the first to the last layer."""
    nodes: list[NodeProto] = []
    last = "x"
    for layer in range(num_layers):
        nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"]))
        last = f"r{layer}"
    nodes.append(helper.make_node("Add", [last, "r0"], ["y"]))
    weights = [weight(f"w{layer}", 8, 8, seed=layer) for layer in range(num_layers)]
    return model(nodes, [value("x")], [value("y")], weights)
