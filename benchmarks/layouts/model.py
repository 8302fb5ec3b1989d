"""The model of these benchmarks: a row of equal products of matrices, with a tensor of any size between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.load.errors import ModelFailedError
from split_tool.splitting import split


def make_model(path: Path, *, num_blocks: int, product: int) -> None:
    """A row of products of square matrices; between two there is a vector of ``n`` numbers, and a number.

    Args:
        path: File to write.
        num_blocks: How many products.
        product: Rows of each matrix.
    """
    matrix, one = np.full((product, product), 1 / product, np.float32), np.array([1], np.int64)
    nodes = [
        helper.make_node("Max", ["n", "one"], ["count"]),
        helper.make_node("ConstantOfShape", ["count"], ["v0"], value=numpy_helper.from_array(np.ones(1, np.float32))),
    ]
    for index in range(num_blocks):
        mean, moved, result, scalar = (f"{name}{index}" for name in ("mean", "moved", "matrix", "scalar"))
        nodes += [
            helper.make_node("ReduceMean", [f"v{index}"], [mean], keepdims=0),
            helper.make_node("Add", ["w", mean], [moved]),
            helper.make_node("MatMul", [moved, "w"], [result]),
            helper.make_node("ReduceMean", [result], [scalar], keepdims=0),
            helper.make_node("Add", [f"v{index}", scalar], [f"v{index + 1}"]),
        ]
    nodes.append(helper.make_node("ReduceMean", [f"v{num_blocks}"], ["y"], keepdims=0))
    graph = helper.make_graph(
        nodes,
        "crossing",
        [helper.make_tensor_value_info("n", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(matrix, "w"), numpy_helper.from_array(one, "one")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def split_model(folder: Path, plan_folder: Path, *, num_blocks: int, product: int) -> None:
    """Make the model and split it between its products.

    Raises:
        ModelFailedError: If something else crosses the cuts than is to be measured.
    """
    source = folder / "crossing.onnx"
    make_model(source, num_blocks=num_blocks, product=product)
    plan = split(source, plan_folder, blocks=num_blocks, graph="user", samples={"n": np.array([1_000])})
    crossing = [[spec.name.rstrip("0123456789") for spec in cut.tensors] for cut in plan.cuts]
    if len(crossing) != num_blocks - 1 or not all({"v"} <= set(names) <= {"v", "mean", "scalar"} for names in crossing):
        raise ModelFailedError(f"the model was cut elsewhere than between its products: {crossing} cross")
