"""Rewrites a graph so that one operator becomes several, each a part of its result, and a Concat of the parts.

Channels and columns take their rows of the weights and read the whole input, or the channels of their groups. Rows read
their part of the input (``slice_rows.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper
from onnx.external_data_helper import set_external_data

from split_tool.extract import move_out
from split_tool.sessions import MIN_EXTERNAL_BYTES, Target
from split_tool.slice_parts import SlicedNode, Slicing, renamed
from split_tool.slice_rows import in_rows
from split_tool.slice_ways import attributes_of, group_of, is_convolution


def sliced_target(target: Target, slicings: Mapping[int, Slicing], channel_block: int) -> Target:
    """The target with the given nodes sliced.

    Args:
        target: The graph.
        slicings: What to do with which node, by index in ``target.model.graph.node``.
        channel_block: Channels side by side in the runtime's blocked layout on this machine.
    """
    nodes: list[NodeProto] = []
    added: list[TensorProto] = []
    tensors = {tensor.name: tensor for tensor in target.model.graph.initializer}
    with slices_file(target, stays=True) as beside:
        for index, node in enumerate(target.model.graph.node):
            parts = SlicedNode(nodes=[node])
            if index in slicings:
                parts = slice_node(node, slicings[index], tensors, target, channel_block, beside)
            nodes += parts.nodes
            added += parts.tensors
    made = target.with_nodes(nodes)
    made.model.graph.initializer.extend(added)
    return made


@contextmanager
def slices_file(target: Target, *, stays: bool = False) -> Iterator[IO[bytes] | None]:
    """A new file in the target's folder, for slices of weights; None where that folder is the user's.

    Args:
        target: The graph.
        stays: The file is not removed at the end.
    """
    if not target.is_optimised:
        yield None
        return
    with NamedTemporaryFile(dir=target.folder, prefix="slices-", delete=not stays) as file:
        yield file


def slice_node(
    node: NodeProto,
    slicing: Slicing,
    tensors: Mapping[str, TensorProto],
    target: Target,
    channel_block: int,
    beside: IO[bytes] | None,
) -> SlicedNode:
    """The nodes and initializers that compute what ``node`` computes, in parts; large initializers go to ``beside``."""
    sizes = slicing.way.sizes(slicing.num_slices)
    bounds = list(pairwise([0, *accumulate(sizes)]))
    if slicing.way.axis == "rows":
        return in_rows(node, slicing, bounds, tensors, target.model, channel_block)
    made = SlicedNode()
    parts: list[str] = []
    for index, (start, stop) in enumerate(bounds):
        part = renamed(node, index)
        for place, axis in _weight_axes(node):
            tensor = tensors[node.input[place]]
            name = f"{part.output[0]}/{place}"
            sliced = _sliced_tensor(tensor, target.folder, axis, start, stop, name)
            if beside is not None and len(sliced.raw_data) >= MIN_EXTERNAL_BYTES:
                move_out(sliced, beside)
            made.tensors.append(sliced)
            part.input[place] = name
        if is_convolution(node):
            _take_channels(made, part, start, stop, tensors[node.input[1]], target.model)
        made.nodes.append(part)
        parts.append(part.output[0])
    made.add("Concat", parts, node.output[0], axis=_joining_axis(node, slicing))
    return made


def _take_channels(
    made: SlicedNode, part: NodeProto, start: int, stop: int, weight: TensorProto, model: ModelProto
) -> None:
    """Let a part of a convolution read the input channels of its groups, and its share of a tensor that is added.

    Parts are whole blocks of the blocked layout, which lie in a row, so that a plain Slice takes them.
    """
    group = group_of(part)
    if group > 1:
        first, last = (end * group // weight.dims[0] for end in (start, stop))
        for attribute in part.attribute:
            if attribute.name == "group":
                attribute.i = last - first
        read = weight.dims[1]
        part.input[0] = made.take(part.input[0], f"{part.output[0]}/input", 1, first * read, last * read, model)
    if len(part.input) > 3 and part.input[3]:
        part.input[3] = made.take(part.input[3], f"{part.output[0]}/added", 1, start, stop, model)


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
