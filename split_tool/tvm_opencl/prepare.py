"""A block as TVM's importer likes it: fixed shapes, batch normalisation folded, names that are C identifiers."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import onnx
import onnxruntime as ort
from onnx import ModelProto, NodeProto, helper

from split_tool.errors import ModelRefusedError, one_line


def prepare(file: Path, shapes: Mapping[str, tuple[int, ...]]) -> ModelProto:
    """The block with inputs ``x0``, ``x1``, ... and outputs ``y0``, ``y1``, ... in its own order.

    ONNX Runtime's basic optimisation folds constants and batch normalisation and drops Dropout and Identity; Sum, whose
    layout TVM cannot convert, becomes Add.

    Args:
        file: The block.
        shapes: Shape of every input.

    Raises:
        ModelRefusedError: If ONNX Runtime cannot load it, or it holds operators of other domains or subgraphs.
    """
    model = onnx.load(str(file))
    _fix_shapes(model, shapes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "block.onnx"
        onnx.save(model, str(path), save_as_external_data=True, location="weights.data")
        model = _optimise(path, Path(folder) / "optimised.onnx")
    graph = model.graph
    foreign = {node.domain for node in graph.node} - {"", "ai.onnx"}
    if foreign or any(a.type in (a.GRAPH, a.GRAPHS) for node in graph.node for a in node.attribute):
        raise ModelRefusedError(f"TVM takes neither subgraphs nor operators of other domains ({', '.join(foreign)})")
    initializers = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in initializers]
    del graph.input[:]
    graph.input.extend(inputs)
    nodes = [part for node in graph.node for part in _without_sum(node)]
    del graph.node[:]
    graph.node.extend(nodes)
    _rename(model)
    del graph.value_info[:]
    return model


def _fix_shapes(model: ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for value in model.graph.input:
        if value.name in shapes:
            axes = value.type.tensor_type.shape
            del axes.dim[:]
            for size in shapes[value.name]:
                axes.dim.add(dim_value=size)
    del model.graph.value_info[:]


def _optimise(path: Path, to: Path) -> ModelProto:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(to)
    try:
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime raises a dozen unrelated classes
        raise ModelRefusedError(f"ONNX Runtime {ort.__version__} cannot load the block: {one_line(error)}") from error
    return onnx.load(str(to))


def _without_sum(node: NodeProto) -> list[NodeProto]:
    """The node, or the additions that a Sum consists of."""
    if node.op_type != "Sum" or len(node.input) < 2:
        return [node]
    last, *others = node.input
    nodes = []
    for number, other in enumerate(others, start=1):
        total = node.output[0] if number == len(others) else f"{node.output[0]}_part{number}"
        nodes.append(helper.make_node("Add", [last, other], [total]))
        last = total
    return nodes


def _rename(model: ModelProto) -> None:
    """Call inputs and outputs so that kernel arguments are C identifiers; an input that is an output is copied."""
    graph = model.graph
    names = {value.name: f"x{number}" for number, value in enumerate(graph.input)}
    for number, value in enumerate(graph.output):
        if value.name in names:
            graph.node.append(helper.make_node("Identity", [value.name], [f"y{number}"]))
        else:
            names[value.name] = f"y{number}"
        value.name = f"y{number}"
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for tensor in (*graph.initializer, *graph.input):
        tensor.name = names.get(tensor.name, tensor.name)
