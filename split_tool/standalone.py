"""Nodes of a graph as a model of their own, to be checked or measured alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from split_tool.plan import TensorSpec
from split_tool.scope import captured_names
from split_tool.sessions import Target
from split_tool.source import initializer_names
from split_tool.values import value_info


def part_of(
    target: Target, nodes: Sequence[NodeProto], specs: Sequence[TensorSpec], body: GraphProto | None = None
) -> Target:
    """Nodes of the target as a model of their own, with the weights they read.

    Args:
        target: The graph.
        nodes: In run order; the model gives the outputs of the last.
        specs: What they may read at run time.
        body: The branch whose nodes they are: its weights count as well, and its outputs instead.
    """
    whole = target.model
    model = ModelProto(ir_version=whole.ir_version)
    model.opset_import.extend(whole.opset_import)
    model.functions.extend(whole.functions)
    graph = model.graph
    graph.name = "part"
    graph.node.extend(nodes)
    read = {name for node in nodes for name in (*node.input, *captured_names(node))}
    if body is not None:
        read |= {value.name for value in body.output}
        graph.initializer.extend(body.initializer)
        graph.sparse_initializer.extend(body.sparse_initializer)
    own = initializer_names(graph)
    graph.initializer.extend(t for t in whole.graph.initializer if t.name in read - own)
    graph.sparse_initializer.extend(t for t in whole.graph.sparse_initializer if t.values.name in read - own)
    graph.input.extend(value_info(spec) for spec in specs if spec.name in read)
    names = [name for name in nodes[-1].output if name] if body is None else [value.name for value in body.output]
    graph.output.extend(ValueInfoProto(name=name) for name in names)
    return replace(target, model=model)
