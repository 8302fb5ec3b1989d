"""Nets of a few kernels: PoCL builds each in 0.6 s."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, NodeProto, helper

from tests.integration.split_tool.tiny_models import model, value, weight


def net(nodes: Sequence[NodeProto], shape: Sequence[int], **weights: tuple[int, ...]) -> ModelProto:
    """A model of input ``x`` and output ``y`` with random weights of the shapes given."""
    made = [weight(name, *size, seed=number) for number, (name, size) in enumerate(weights.items())]
    return model(nodes, [value("x", shape)], [value("y", ("?",) * len(shape))], made)


def conv(source: str, weights: str, target: str, **options: object) -> NodeProto:
    return helper.make_node("Conv", [source, weights], [target], **{"pads": [1, 1, 1, 1], **options})


def relu(source: str, target: str) -> NodeProto:
    return helper.make_node("Relu", [source], [target])


def dense() -> ModelProto:
    """A convolution with padding, and its activation."""
    return net([conv("x", "w", "c"), relu("c", "y")], (1, 4, 8, 8), w=(8, 4, 3, 3))


def three_kinds() -> ModelProto:
    """A dense, a depthwise and a grouped convolution."""
    nodes = [conv("x", "w", "a"), conv("a", "d", "b", group=8), conv("b", "g", "y", group=2)]
    return net(nodes, (1, 4, 8, 8), w=(8, 4, 3, 3), d=(8, 1, 3, 3), g=(8, 4, 3, 3))


def odd_channels() -> ModelProto:
    """3 channels become 6."""
    return net([conv("x", "w", "c"), relu("c", "y")], (1, 3, 8, 8), w=(6, 3, 3, 3))


def pooled(kind: str, size: int) -> ModelProto:
    """A convolution and a pooling of windows as large as said."""
    pool = helper.make_node(kind, ["c"], ["y"], kernel_shape=[size, size], strides=[size, size])
    return net([conv("x", "w", "c"), pool], (1, 4, 16, 16), w=(8, 4, 3, 3))


def averaged() -> ModelProto:
    """A convolution and the average of each channel: 256 summands."""
    return net(
        [conv("x", "w", "c"), helper.make_node("GlobalAveragePool", ["c"], ["y"])], (1, 4, 16, 16), w=(8, 4, 3, 3)
    )


def many_channels(size: int) -> ModelProto:
    """A convolution of 128 channels, and its activation: 1152 summands for each of many outputs."""
    return net([conv("x", "w", "c"), relu("c", "y")], (1, 128, size, size), w=(64, 128, 3, 3))


def classifier() -> ModelProto:
    """Two convolutions, pooling, a fully connected layer."""
    nodes = [
        conv("x", "w0", "c0"),
        relu("c0", "r0"),
        helper.make_node("MaxPool", ["r0"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        conv("p", "w1", "c1"),
        helper.make_node("Sum", ["c1", "p"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "w2"], ["y"]),
    ]
    made = [weight("w0", 8, 4, 3, 3), weight("w1", 8, 8, 3, 3, seed=1), weight("w2", 8, 10, seed=2)]
    return model(nodes, [value("x", (1, 4, 8, 8))], [value("y", (1, 10))], made)


def random_input(shape: Sequence[int], seed: int = 0) -> dict[str, np.ndarray]:
    """A seeded input ``x``."""
    return {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}
