"""Channels made divisible by 4 with zero weights, so that they fill the texels of textures."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

TEXEL = 4


def pad_channels(model: ModelProto) -> int:
    """Pad every dense 2-D convolution in place whose channels do not fill texels; gives how many there were.

    Missing input channels are zeros with zero weights, surplus output channels have zero weights and are cut off again.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes: list[NodeProto] = []
    num_padded = 0
    for node in model.graph.node:
        padded = _pad(model, node, weights) if node.op_type == "Conv" else [node]
        num_padded += len(padded) > 1
        nodes += padded
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return num_padded


def _pad(model: ModelProto, node: NodeProto, weights: dict[str, TensorProto]) -> list[NodeProto]:
    groups = next((attribute.i for attribute in node.attribute if attribute.name == "group"), 1)
    if groups != 1 or any(name not in weights for name in node.input[1:] if name):
        return [node]
    filters = numpy_helper.to_array(weights[node.input[1]])
    missing_out, missing_in = -filters.shape[0] % TEXEL, -filters.shape[1] % TEXEL
    if filters.ndim != 4 or not (missing_out or missing_in):
        return [node]
    name = node.output[0]
    padded = NodeProto()
    padded.CopyFrom(node)
    around = [(0, missing_out), (0, missing_in), (0, 0), (0, 0)]
    padded.input[1] = _constant(model, f"{name}_filters", np.pad(filters, around))
    if len(node.input) > 2 and node.input[2]:
        bias = numpy_helper.to_array(weights[node.input[2]])
        padded.input[2] = _constant(model, f"{name}_bias", np.pad(bias, (0, missing_out)))
    nodes = [padded]
    if missing_in:
        padded.input[0] = f"{name}_wider"
        pads = {"pads": [0, 0, 0, 0, 0, missing_in, 0, 0]}
        nodes.insert(0, _node(model, "Pad", node.input[0], padded.input[0], pads, is_old=_opset(model) < 11))
    if missing_out:
        padded.output[0] = f"{name}_surplus"
        limits = {"starts": [0], "ends": [filters.shape[0]], "axes": [1]}
        nodes.append(_node(model, "Slice", padded.output[0], name, limits, is_old=_opset(model) < 10))
    return nodes


def _node(
    model: ModelProto, kind: str, source: str, target: str, options: dict[str, list[int]], *, is_old: bool
) -> NodeProto:
    """A node whose options are attributes in old operator sets and inputs in newer ones."""
    if is_old:
        node = helper.make_node(kind, [source], [target])
        node.attribute.extend(helper.make_attribute(option, sizes) for option, sizes in options.items())
        return node
    names = [_constant(model, f"{target}_{option}", np.array(sizes, np.int64)) for option, sizes in options.items()]
    return helper.make_node(kind, [source, *names], [target])


def _opset(model: ModelProto) -> int:
    (version,) = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    return int(version)


def _constant(model: ModelProto, name: str, array: np.ndarray) -> str:
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    return name
