"""What slicing an operator adds to a graph: the decision, and the nodes and tensors that take the operator's place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from split_tool.scope import domain_of
from split_tool.slice_ways import SliceWay

MARK = "split-tool-slice"
"""Part of the names of everything that slicing adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slicing:
    """The decision to slice one node.

    Attributes:
        way: The axis.
        num_slices: Parts, at least 2.
        input_shape: Shape of the node's first input as far as it is fixed; rows need all but the batch.
    """

    way: SliceWay
    num_slices: int
    input_shape: tuple[int | str | None, ...] | None = None


@dataclass(slots=True, kw_only=True)
class SlicedNode:
    """What takes the place of a node.

    Attributes:
        nodes: In run order; the last gives the node's output.
        tensors: New initializers.
    """

    nodes: list[NodeProto] = field(default_factory=list)
    tensors: list[TensorProto] = field(default_factory=list)

    def constant(self, name: str, values: Sequence[int]) -> str:
        """Add an int64 vector; returns its name."""
        self.tensors.append(numpy_helper.from_array(np.asarray(values, dtype=np.int64), name))
        return name

    def add(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a standard operator; returns the name of its output."""
        self.nodes.append(helper.make_node(op_type, list(inputs), [output], name=output, **attributes))
        return output

    def take(self, name: str, output: str, axis: int, first: int, last: int, model: ModelProto) -> str:
        """Add a Slice of ``first`` to ``last - 1`` along one axis, in the form of the model's opset."""
        opset = next((entry.version for entry in model.opset_import if domain_of(entry.domain) == ""), 10)
        if opset < 10:
            return self.add("Slice", [name], output, starts=[first], ends=[last], axes=[axis])
        values = {"first": first, "last": last, "axis": axis}
        ends = [self.constant(f"{output}/{which}", [at]) for which, at in values.items()]
        return self.add("Slice", [name, *ends], output)


def renamed(node: NodeProto, index: int) -> NodeProto:
    """A copy of the node as part ``index`` of it."""
    part = NodeProto()
    part.CopyFrom(node)
    part.name = f"{node.name or node.output[0]}/{MARK}-{index}"
    part.output[0] = f"{node.output[0]}/{MARK}-{index}"
    return part
