"""Rewrites a graph so that one operator becomes several, each a part of its result, and a Concat of the parts.

Channels and columns take their rows of the weights and read the whole input; nothing is copied but the parts of the
result, once. Rows read their part of the input through a Slice. On ONNX Runtime's blocked layout a tensor that counts
as ``(batch, channels, height, width)`` lies in memory as ``(batch, channels / block, height, width * block)``; Slice
and Concat along the height see it through a Reshape to that, which costs nothing inside a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from split_tool.scope import domain_of
from split_tool.sessions import Target
from split_tool.slice_ways import NCHWC_DOMAIN, SliceWay, attributes_of, is_convolution, window_of

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


def sliced_target(target: Target, slicings: Mapping[int, Slicing], channel_block: int) -> Target:
    """The target with the given nodes sliced.

    Args:
        target: The graph.
        slicings: What to do with which node, by index in ``target.model.graph.node``.
        channel_block: Channels side by side in the runtime's blocked layout on this machine.
    """
    model = ModelProto()
    model.CopyFrom(target.model)
    del model.graph.node[:]
    tensors = {tensor.name: tensor for tensor in target.model.graph.initializer}
    for index, node in enumerate(target.model.graph.node):
        if index in slicings:
            parts = slice_node(node, slicings[index], tensors, target, channel_block)
            model.graph.node.extend(parts.nodes)
            model.graph.initializer.extend(parts.tensors)
        else:
            model.graph.node.append(node)
    return Target(model=model, folder=target.folder, is_optimised=target.is_optimised)


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


def slice_node(
    node: NodeProto, slicing: Slicing, tensors: Mapping[str, TensorProto], target: Target, channel_block: int
) -> SlicedNode:
    """The nodes and initializers that compute what ``node`` computes, in parts."""
    sizes = slicing.way.sizes(slicing.num_slices)
    bounds = list(pairwise([0, *accumulate(sizes)]))
    if slicing.way.axis == "rows":
        return _in_rows(node, slicing, bounds, tensors, target, channel_block)
    made = SlicedNode()
    parts: list[str] = []
    for index, (start, stop) in enumerate(bounds):
        part = _renamed(node, index)
        for place, axis in _weight_axes(node):
            tensor = tensors[node.input[place]]
            name = f"{node.output[0]}/{MARK}-{index}/{place}"
            made.tensors.append(_sliced_tensor(tensor, target.folder, axis, start, stop, name))
            part.input[place] = name
        made.nodes.append(part)
        parts.append(part.output[0])
    made.add("Concat", parts, node.output[0], axis=_joining_axis(node, slicing))
    return made


def _joining_axis(node: NodeProto, slicing: Slicing) -> int:
    """The output axis along which parts of channels or columns lie; old opsets know no axis counted from the end."""
    if slicing.way.axis == "channels" or node.op_type.endswith("Gemm"):
        return 1
    return len(slicing.input_shape) - 1 if slicing.input_shape else -1


def _weight_axes(node: NodeProto) -> list[tuple[int, int]]:
    """The inputs that hold weights over the output axis, and along which of their axes it runs."""
    bias = [(2, -1)] if len(node.input) > 2 and node.input[2] else []
    if is_convolution(node):
        return [(1, 0), *bias]
    if node.op_type == "ConvTranspose":
        return [(1, 1), *bias]
    return [(1, 0 if attributes_of(node).get("transB", 0) else 1), *bias]


def _in_rows(
    node: NodeProto,
    slicing: Slicing,
    bounds: Sequence[tuple[int, int]],
    tensors: Mapping[str, TensorProto],
    target: Target,
    channel_block: int,
) -> SlicedNode:
    shape = slicing.input_shape
    assert shape is not None
    height = shape[2]
    assert isinstance(height, int)
    made = SlicedNode()
    is_blocked = node.domain == NCHWC_DOMAIN
    weight = tensors[node.input[1]] if is_convolution(node) else None
    reads_blocked = is_blocked and _int(shape[1]) >= channel_block  # plain images of few channels are read as they are
    parts: list[str] = []
    for index, (start, stop) in enumerate(bounds):
        mark = f"{node.output[0]}/{MARK}-{index}"
        first, last, before, after = start, stop, 0, 0
        part = _renamed(node, index)
        if weight is not None:
            window = window_of(node, weight.dims[2])
            assert window is not None
            first, last, before, after = window.rows(start, stop, height)
            _set_pads(part, before, after, len(shape) - 2)
        rows = node.input[0]
        if reads_blocked:
            seen = made.constant(f"{mark}/seen", [0, _int(shape[1]) // channel_block, height, -1])
            rows = made.add("Reshape", [rows, seen], f"{mark}/blocked")
        rows = _slice(made, rows, f"{mark}/rows", first, last, target.model)
        if reads_blocked:
            as_counted = made.constant(f"{mark}/counted", [0, *map(_int, (shape[1], last - first, shape[3]))])
            rows = made.add("Reshape", [rows, as_counted], f"{mark}/input")
        part.input[0] = rows
        made.nodes.append(part)
        if is_blocked:
            assert weight is not None
            seen = made.constant(f"{mark}/made", [0, weight.dims[0] // channel_block, stop - start, -1])
            parts.append(made.add("Reshape", [part.output[0], seen], f"{mark}/part"))
        else:
            parts.append(part.output[0])
    if not is_blocked:
        made.add("Concat", parts, node.output[0], axis=2)
        return made
    assert weight is not None
    joined = made.add("Concat", parts, f"{node.output[0]}/{MARK}/joined", axis=2)
    whole = made.constant(f"{node.output[0]}/{MARK}/whole", [0, weight.dims[0], bounds[-1][1], -1])
    made.add("Reshape", [joined, whole], node.output[0])
    return made


def _int(axis: int | str | None) -> int:
    assert isinstance(axis, int)
    return axis


def _renamed(node: NodeProto, index: int) -> NodeProto:
    part = NodeProto()
    part.CopyFrom(node)
    part.name = f"{node.name or node.output[0]}/{MARK}-{index}"
    part.output[0] = f"{node.output[0]}/{MARK}-{index}"
    return part


def _set_pads(node: NodeProto, before: int, after: int, rank: int) -> None:
    """Padding of the first spatial axis; the other axes keep theirs."""
    attributes = attributes_of(node)
    old = attributes.get("pads")
    is_valid = attributes.get("auto_pad") == b"VALID"
    pads = [int(pad) for pad in old] if isinstance(old, list) and old and not is_valid else [0] * (2 * rank)
    pads[0], pads[rank] = before, after
    kept = [a for a in node.attribute if a.name not in ("pads", "auto_pad")]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("pads", pads)])


def _slice(made: SlicedNode, name: str, output: str, first: int, last: int, model: ModelProto) -> str:
    """A Slice along axis 2, in the form of the model's opset."""
    opset = next((entry.version for entry in model.opset_import if domain_of(entry.domain) == ""), 10)
    if opset < 10:
        return made.add("Slice", [name], output, starts=[first], ends=[last], axes=[2])
    ends = [made.constant(f"{output}/{end}", [at]) for end, at in (("first", first), ("last", last), ("axis", 2))]
    return made.add("Slice", [name, *ends], output)


def _sliced_tensor(tensor: TensorProto, folder: Path, axis: int, start: int, stop: int, name: str) -> TensorProto:
    """Part of a weight along one axis. Along the first axis, weights in another file stay references into it.

    Weights of the blocked layout are ordered otherwise than their shape says, but by whole blocks of output channels
    first, so that a part along the first axis is a piece in a row all the same.
    """
    axis %= max(len(tensor.dims), 1)
    if not tensor.dims or tensor.dims[axis] == 1:
        start, stop = 0, 1
    if tensor.data_location == TensorProto.EXTERNAL and axis == 0 and tensor.dims:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if "length" in entries:
            step = int(entries["length"]) // tensor.dims[0]
            part = TensorProto(name=name, data_type=tensor.data_type, dims=[stop - start, *tensor.dims[1:]])
            part.raw_data = b""
            offset = int(entries.get("offset", 0)) + start * step
            set_external_data(part, entries["location"], offset=offset, length=(stop - start) * step)
            part.data_location = TensorProto.EXTERNAL
            part.ClearField("raw_data")
            return part
    array = numpy_helper.to_array(tensor, base_dir=str(folder))
    if not tensor.dims:
        return numpy_helper.from_array(array, name)
    index = [slice(None)] * axis + [slice(start, stop)]
    return numpy_helper.from_array(np.ascontiguousarray(array[tuple(index)]), name)
