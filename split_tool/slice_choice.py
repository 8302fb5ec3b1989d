"""Chooses what to slice: operators longer than the wanted block, each along the axis that measures cheapest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from split_tool.chain import Chain
from split_tool.cutting import Cutting, prepare
from split_tool.plan import SlicedOperator, TensorSpec
from split_tool.sessions import Device, Target, open_session, session_options
from split_tool.slice_ways import NCHWC_DOMAIN, SliceWay, slice_ways
from split_tool.slicing import SlicedNode, Slicing, slice_node, sliced_target
from split_tool.values import to_ort, value_info

ROOM = 0.9
"""A part is meant to take this share of the wanted block, so that the cuts around it fit in too."""

MORE_SLICES = 3
"""So many numbers of parts are tried per axis while the parts measure too long."""

MAX_SLOWER = 0.4
"""Slicing does not pay if all parts together take so much longer than the operator."""

MIN_SHORTER = 0.2
"""Nor if a part is not shorter than the operator by this share."""

NEARLY = 0.8
"""Operators are looked at from this share of the wanted block on; their own measurement then decides."""

ROUNDS = 5
FLOATS = ("float32", "float64", "float16")


def with_slices(
    cutting: Cutting,
    max_block_ms: float,
    feeds: Mapping[str, ort.OrtValue],
    work: Path,
    *,
    num_profile_runs: int,
    report: Callable[[str, float], None],
) -> Cutting:
    """The cutting with every operator sliced that takes longer than ``max_block_ms`` and can be, where that pays.

    Args:
        cutting: The graph as it is, with its costs.
        max_block_ms: The wanted longest block.
        feeds: Inputs as OrtValues, to profile the sliced graph with.
        work: Folder for scratch files.
        num_profile_runs: See ``prepare``.
        report: Progress.

    Returns:
        ``cutting`` itself if nothing is sliced.
    """
    target, graph = cutting.target, cutting.graph
    shapes = _input_shapes(cutting)
    weights = {tensor.name: tuple(tensor.dims) for tensor in target.model.graph.initializer}
    steps = zip(graph.steps, cutting.costs.step_ms, strict=True)
    long = [index for index, step_ms in steps if step_ms > NEARLY * max_block_ms]
    known: dict[object, Slicing | None] = {}
    slicings: dict[int, Slicing] = {}
    for count, index in enumerate(long):
        report("measuring slices inside long operators", count / len(long))
        node = target.model.graph.node[index]
        first = node.input[0] if node.input else ""
        ways = slice_ways(node, weights, shapes.get(first))
        if not ways or _measuring_spec(cutting, first, shapes.get(first)).dtype not in FLOATS:
            continue
        key = _kind(node, weights, shapes.get(first))
        if key not in known:
            known[key] = _best_slicing(cutting, node, ways, max_block_ms, shapes.get(first))
        slicing = known[key]
        if slicing is not None:
            slicings[index] = slicing
    if not slicings:
        return cutting
    sliced = sliced_target(target, slicings, channel_block(cutting.device))
    made = prepare(sliced, feeds, cutting.device, work, num_profile_runs=num_profile_runs)
    return made.with_slices(
        tuple(
            SlicedOperator(
                output=target.model.graph.node[index].output[0],
                op_type=target.model.graph.node[index].op_type,
                axis=slicing.way.axis,
                num_slices=slicing.num_slices,
            )
            for index, slicing in slicings.items()
        )
    )


@cache
def channel_block(device: Device) -> int:
    """How many channels of a pixel lie side by side in the runtime's blocked layout on this processor."""
    node = helper.make_node("ReorderInput", ["x"], ["y"], domain=NCHWC_DOMAIN)
    graph = helper.make_graph(
        [node], "layout", [helper.make_tensor_value_info("x", 1, [1, 64, 1, 2])], [ValueInfoProto(name="y")]
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(NCHWC_DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    pixels = np.repeat(np.asarray([[[[0.0, 1.0]]]], dtype=np.float32), 64, axis=1)
    session = open_session(model, device, session_options(device, optimise=False))
    (moved,) = session.run(None, {"x": pixels})
    return int(np.argmax(moved.ravel() > 0))


def _input_shapes(cutting: Cutting) -> dict[str, tuple[int | str | None, ...] | None]:
    """Shapes of everything an operator can read at run time, open axes as None or by name."""
    shapes: dict[str, tuple[int | str | None, ...] | None] = {}
    for value in cutting.target.model.graph.input:
        if value.type.tensor_type.HasField("shape"):
            dims = value.type.tensor_type.shape.dim
            shapes[value.name] = tuple(d.dim_value if d.HasField("dim_value") else None for d in dims)
    shapes.update({name: spec.shape for name, spec in cutting.probe.types.items() if spec.kind == "tensor"})
    return shapes


def _kind(
    node: NodeProto, weights: Mapping[str, tuple[int, ...]], shape: tuple[int | str | None, ...] | None
) -> object:
    """Nodes of the same kind take the same time: all but their names is equal."""
    attributes = tuple(sorted(a.SerializeToString(deterministic=True) for a in node.attribute))
    return node.domain, node.op_type, attributes, tuple(weights.get(name) for name in node.input), shape


def _best_slicing(
    cutting: Cutting,
    node: NodeProto,
    ways: tuple[SliceWay, ...],
    max_block_ms: float,
    shape: tuple[int | str | None, ...] | None,
) -> Slicing | None:
    """The cheapest slicing with parts short enough, else the one with the shortest parts; None if none pays."""
    found: list[tuple[bool, float, Slicing]] = []
    (alone_ms,) = _measured(cutting, node, shape, [None])
    wanted = max(2, math.ceil(alone_ms / (ROOM * max_block_ms)))
    if alone_ms <= max_block_ms:
        return None
    for way in ways:
        for num_slices in range(min(wanted, way.max_slices), min(wanted + MORE_SLICES, way.max_slices + 1)):
            slicing = Slicing(way=way, num_slices=num_slices, input_shape=shape)
            whole_ms, sliced_ms = _measured(cutting, node, shape, [None, slicing])
            longest_ms = sliced_ms * max(way.sizes(num_slices)) / way.length
            if sliced_ms <= whole_ms * (1 + MAX_SLOWER) and longest_ms <= whole_ms * (1 - MIN_SHORTER):
                is_long = longest_ms > max_block_ms
                found.append((is_long, longest_ms if is_long else sliced_ms / whole_ms, slicing))
            if longest_ms <= max_block_ms:
                break
    return min(found, key=lambda item: item[:2])[2] if found else None


def _measured(
    cutting: Cutting,
    node: NodeProto,
    shape: tuple[int | str | None, ...] | None,
    slicings: Sequence[Slicing | None],
) -> list[float]:
    """Time in ms of the operator alone, whole (None) or sliced, in turns; the quietest of some runs."""
    target = cutting.target
    tensors = {tensor.name: tensor for tensor in target.model.graph.initializer}
    spec = _measuring_spec(cutting, node.input[0], shape)
    own = [tensors[name] for name in node.input[1:] if name]
    chains: list[Chain] = []
    for slicing in slicings:
        parts = SlicedNode(nodes=[node])
        if slicing is not None:
            parts = slice_node(node, slicing, tensors, target, channel_block(cutting.device))
        read = {name for part in parts.nodes for name in part.input}
        kept = [tensor for tensor in own if tensor.name in read]
        model = _model(target, spec, parts.nodes, [*kept, *parts.tensors], node.output[0])
        chains.append(Chain([model], cutting.device, is_optimised=target.is_optimised, external_folder=target.folder))
    axes = [axis for axis in spec.shape or () if isinstance(axis, int)]
    values = np.random.default_rng(0).standard_normal(axes).astype(spec.dtype)
    feeds = {spec.name: to_ort(values, spec)}
    best_s = [math.inf] * len(chains)
    for round_index in range(ROUNDS + 1):
        for which, chain in enumerate(chains):
            run_s = sum(chain.run_timed(feeds, []))
            if round_index:
                best_s[which] = min(best_s[which], run_s)
    return [1000 * time_s for time_s in best_s]


def _measuring_spec(cutting: Cutting, name: str, shape: tuple[int | str | None, ...] | None) -> TensorSpec:
    """The node's input with the shape it had while probing; a model input's open axes count as 1."""
    seen = cutting.probe.shapes.get(name)
    if seen is None:
        seen = tuple(axis if isinstance(axis, int) and axis > 0 else 1 for axis in shape or ())
    known = cutting.probe.types.get(name)
    return TensorSpec(name=name, dtype=known.dtype if known else "float32", shape=seen)


def _model(
    target: Target, spec: TensorSpec, nodes: Sequence[NodeProto], tensors: Sequence[TensorProto], output: str
) -> ModelProto:
    model = ModelProto(ir_version=target.model.ir_version)
    model.opset_import.extend(target.model.opset_import)
    model.graph.name = "slices"
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(tensors)
    model.graph.input.append(value_info(spec))
    model.graph.output.append(ValueInfoProto(name=output))
    return model
