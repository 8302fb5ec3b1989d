"""The built-in models with random weights: constant ones, as they come, would hide most wrong results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from split_tool.zoo import model_path


def write_random(name: str, folder: Path, *, seed: int = 0) -> Path:
    """A zoo model in ``folder``: weights drawn after He, biases about a tenth, scales and variances around 1.

    Raises:
        OptionError, ModelRefusedError: See ``model_path``.
    """
    model = onnx.load(str(model_path(name)))
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    rng = np.random.default_rng(seed)
    normalisations = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    around_one = {name for node in normalisations for name in (node.input[1], node.input[4])}
    nodes = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            nodes.append(node)
            continue
        shape = tuple(int(size) for size in shapes[node.input[0]])
        (value,) = node.output
        scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        weights = rng.uniform(0.5, 1.5, shape) if value in around_one else rng.standard_normal(shape) * scale
        model.graph.initializer.append(numpy_helper.from_array(weights.astype(np.float32), value))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    path = folder / f"{name}.onnx"
    onnx.save(model, str(path))
    return path
