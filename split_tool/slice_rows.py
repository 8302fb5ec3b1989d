"""Slices an operator along the rows of its image: each part reads its rows and those around them that it reaches.

On ONNX Runtime's blocked layout a tensor that counts as ``(batch, channels, height, width)`` lies in memory as
``(batch, channels / block, height, width * block)``; Slice and Concat along the height see it through a Reshape to
that, which costs nothing inside a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx import ModelProto, NodeProto, TensorProto, helper

from split_tool.slice_parts import MARK, SlicedNode, Slicing, renamed
from split_tool.slice_ways import NCHWC_DOMAIN, attributes_of, is_convolution, window_of


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """A tensor of which parts read rows.

    Attributes:
        name: Its name.
        channels: Its second axis.
        height: Its third, the one that is cut.
        width: Its fourth, in the blocked layout; -1 where it is not known.
        block: Channels side by side in the blocked layout; 0 in the plain one.
    """

    name: str
    channels: int
    height: int
    width: int
    block: int

    def taken(self, made: SlicedNode, output: str, first: int, last: int, model: ModelProto) -> str:
        """Add what gives rows ``first`` to ``last - 1`` as ``output``; returns that name."""
        if not self.block:
            return made.take(self.name, output, 2, first, last, model)
        seen = made.constant(f"{output}/seen", [0, self.channels // self.block, self.height, -1])
        blocked = made.add("Reshape", [self.name, seen], f"{output}/blocked")
        rows = made.take(blocked, f"{output}/rows", 2, first, last, model)
        counted = made.constant(f"{output}/counted", [0, self.channels, last - first, self.width])
        return made.add("Reshape", [rows, counted], output)


def in_rows(
    node: NodeProto,
    slicing: Slicing,
    bounds: Sequence[tuple[int, int]],
    tensors: Mapping[str, TensorProto],
    model: ModelProto,
    channel_block: int,
) -> SlicedNode:
    """What takes the place of a node that is sliced along rows; ``bounds`` are the parts' (see ``slice_node``)."""
    shape = slicing.input_shape
    assert shape is not None
    made = SlicedNode()
    weight = tensors[node.input[1]] if is_convolution(node) else None
    window = window_of(node, weight.dims[2]) if weight is not None else None
    is_blocked = node.domain == NCHWC_DOMAIN and weight is not None
    height, num_channels = _int(shape[2]), _int(shape[1])
    num_made = weight.dims[0] if weight is not None else num_channels
    reads_blocked = is_blocked and num_channels >= channel_block  # plain images of few channels are read as they are
    rows = _Rows(
        name=node.input[0],
        channels=num_channels,
        height=height,
        width=_int(shape[3]) if reads_blocked else -1,
        block=channel_block if reads_blocked else 0,
    )
    adds = len(node.input) > 3 and bool(node.input[3])
    added = _Rows(
        name=node.input[3] if adds else "",
        channels=num_made,
        height=bounds[-1][1],
        width=-1,
        block=channel_block if is_blocked else 0,
    )
    parts: list[str] = []
    for index, (start, stop) in enumerate(bounds):
        part = renamed(node, index)
        mark = part.output[0]
        first, last = start, stop
        if window is not None:
            first, last, before, after = window.rows(start, stop, height)
            _set_pads(part, before, after, len(shape) - 2)
        part.input[0] = rows.taken(made, f"{mark}/input", first, last, model)
        if adds:
            part.input[3] = added.taken(made, f"{mark}/added", start, stop, model)
        made.nodes.append(part)
        if is_blocked:
            seen = made.constant(f"{mark}/made", [0, num_made // channel_block, stop - start, -1])
            mark = made.add("Reshape", [mark, seen], f"{mark}/part")
        parts.append(mark)
    if not is_blocked:
        made.add("Concat", parts, node.output[0], axis=2)
        return made
    joined = made.add("Concat", parts, f"{node.output[0]}/{MARK}/joined", axis=2)
    whole = made.constant(f"{node.output[0]}/{MARK}/whole", [0, num_made, bounds[-1][1], -1])
    made.add("Reshape", [joined, whole], node.output[0])
    return made


def _int(axis: int | str | None) -> int:
    assert isinstance(axis, int)
    return axis


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
