"""Chooses what to slice: operators longer than the wanted block, each along the axis that measures cheapest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import onnxruntime as ort
from onnx import NodeProto

from split_tool.cutting import Cutting, prepare
from split_tool.plan import SlicedOperator
from split_tool.progress import Report
from split_tool.slice_bench import Shape, SliceBench, channel_block
from split_tool.slice_parts import Slicing
from split_tool.slice_ways import SliceWay, slice_ways
from split_tool.slicing import sliced_target

ROOM = 0.9
"""A part, or a piece of an If, is to take this share of the wanted block, so that the cuts around it fit in too."""

MORE_SLICES = 3
"""So many numbers of parts are tried per axis while the parts measure too long."""

MAX_SLOWER = 0.4
"""Parts, or pieces, do not pay if all together take so much longer than the operator."""

MIN_SHORTER = 0.2
"""Nor if a part is not shorter than the operator by this share."""

NEARLY = 0.8
"""Operators are looked at from this share of the wanted block on; their own measurement then decides."""


def with_slices(
    cutting: Cutting,
    max_block_ms: float,
    feeds: Mapping[str, ort.OrtValue],
    work: Path,
    *,
    report: Report,
) -> Cutting:
    """The cutting with every operator sliced that takes longer than ``max_block_ms`` and can be, where that pays.

    Args:
        cutting: The graph as it is, with its costs.
        max_block_ms: The wanted longest block.
        feeds: Inputs as OrtValues, to profile the sliced graph with.
        work: Folder for scratch files.
        report: Progress.

    Returns:
        ``cutting`` itself if nothing is sliced.
    """
    target, graph, bench = cutting.target, cutting.graph, SliceBench.of(cutting)
    weights = {name: tuple(tensor.dims) for name, tensor in bench.tensors.items()}
    steps = zip(graph.steps, cutting.costs.step_ms, strict=True)
    long = [index for index, step_ms in steps if step_ms > NEARLY * max_block_ms]
    known: dict[object, Slicing | None] = {}
    slicings: dict[int, Slicing] = {}
    for count, index in enumerate(long):
        report("measuring slices inside long operators", count / len(long))
        node = target.model.graph.node[index]
        shape = bench.shapes.get(node.input[0]) if node.input else None
        ways = slice_ways(node, weights, shape)
        if not ways or not bench.can_measure(node):
            continue
        key = _kind(node, weights, shape)
        if key not in known:
            known[key] = _best_slicing(bench, node, ways, max_block_ms, shape)
        slicing = known[key]
        if slicing is not None:
            slicings[index] = slicing
    if not slicings:
        return cutting
    sliced = sliced_target(target, slicings, channel_block(cutting.device))
    made = prepare(sliced, feeds, cutting.device, work)
    operators = (
        SlicedOperator(
            output=target.model.graph.node[index].output[0],
            op_type=target.model.graph.node[index].op_type,
            axis=slicing.way.axis,
            num_slices=slicing.num_slices,
        )
        for index, slicing in slicings.items()
    )
    return made.with_slices((*cutting.sliced, *operators))


def _kind(node: NodeProto, weights: Mapping[str, tuple[int, ...]], shape: Shape) -> object:
    """Nodes of the same kind take the same time: all but their names is equal."""
    attributes = tuple(sorted(a.SerializeToString(deterministic=True) for a in node.attribute))
    return node.domain, node.op_type, attributes, tuple(weights.get(name, bool(name)) for name in node.input), shape


def _best_slicing(
    bench: SliceBench, node: NodeProto, ways: tuple[SliceWay, ...], max_block_ms: float, shape: Shape
) -> Slicing | None:
    """The cheapest slicing with parts short enough, else the one with the shortest parts; None if none pays."""
    found: list[tuple[bool, float, Slicing]] = []
    (alone_ms,) = bench.times_ms(node, [None])
    if alone_ms <= max_block_ms:
        return None
    wanted = max(2, math.ceil(alone_ms / (ROOM * max_block_ms)))
    for way in ways:
        for num_slices in range(min(wanted, way.max_slices), min(wanted + MORE_SLICES, way.max_slices + 1)):
            slicing = Slicing(way=way, num_slices=num_slices, input_shape=shape)
            whole_ms, sliced_ms = bench.times_ms(node, [None, slicing])
            longest_ms = sliced_ms * max(way.sizes(num_slices)) / way.length
            if sliced_ms <= whole_ms * (1 + MAX_SLOWER) and longest_ms <= whole_ms * (1 - MIN_SHORTER):
                is_long = longest_ms > max_block_ms
                found.append((is_long, longest_ms if is_long else sliced_ms / whole_ms, slicing))
            if longest_ms <= max_block_ms:
                break
    return min(found, key=lambda item: item[:2])[2] if found else None
