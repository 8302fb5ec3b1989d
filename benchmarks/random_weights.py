"""The built-in models with random weights: constant ones, as they come, would hide most wrong results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from split_tool.zoo import model_path


def write_random(name: str, folder: Path, *, seed: int = 0) -> Path:
    """A zoo model in ``folder`` whose weights are drawn after He, and biases about a tenth.

    Raises:
        OptionError, ModelRefusedError: See ``model_path``.
    """
    model = onnx.load(str(model_path(name)))
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    rng = np.random.default_rng(seed)
    nodes = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            nodes.append(node)
            continue
        shape = tuple(int(size) for size in shapes[node.input[0]])
        scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        weights = (rng.standard_normal(shape) * scale).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weights, node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    path = folder / f"{name}.onnx"
    onnx.save(model, str(path))
    return path
