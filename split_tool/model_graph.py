"""From an ONNX graph to the cut graph: which node reads what, from where, and what kind it is."""

from __future__ import annotations

from onnx import ModelProto, NodeProto

from split_tool.graph import CutGraph, Operator
from split_tool.scope import Functions, captured_names, domain_of
from split_tool.source import initializer_names

QUANTISERS = frozenset({"QuantizeLinear"})
DEQUANTISERS = frozenset({"DequantizeLinear"})


def cut_graph(model: ModelProto) -> CutGraph:
    """The cuts of a model; initializers must not be listed as inputs.

    Raises:
        ModelRefusedError: If the graph has a cycle.
    """
    functions = Functions(model.functions)
    return CutGraph(
        [operator_of(node, functions) for node in model.graph.node],
        inputs=[value.name for value in model.graph.input],
        constants=initializer_names(model.graph),
        outputs=[value.name for value in model.graph.output],
    )


def operator_of(node: NodeProto, functions: Functions) -> Operator:
    """What the cuts need to know of one node."""
    named = [name for name in node.input if name]
    role = "compute"
    if domain_of(node.domain) in ("", "com.microsoft"):
        if node.op_type in QUANTISERS:
            role = "quantise"
        elif node.op_type in DEQUANTISERS:
            role = "dequantise"
    return Operator(
        reads=tuple(dict.fromkeys([*named, *captured_names(node)])),
        writes=tuple(name for name in node.output if name),
        is_random=functions.is_random(node),
        role=role,
    )
