"""Writes blocks: each an ONNX file with exactly the nodes, weights and functions that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from onnx import ModelProto, TensorProto, ValueInfoProto
from onnx.external_data_helper import load_external_data_for_tensor, set_external_data

from split_tool.errors import ModelRefusedError, one_line
from split_tool.graph import BlockParts
from split_tool.plan import TensorSpec
from split_tool.scope import Functions
from split_tool.sessions import Target
from split_tool.source import tensors_of
from split_tool.values import value_info

MAX_EMBEDDED_BYTES = 1_500_000_000
"""Weights over this go into a second file beside the block: a protobuf file ends at 2 GiB."""


def write_block(
    target: Target,
    parts: BlockParts,
    types: Mapping[str, TensorSpec],
    path: Path,
    *,
    max_embedded_bytes: int = MAX_EMBEDDED_BYTES,
) -> None:
    """Write one block of the target to ``path``; of the weights beside it, one at a time is read.

    Args:
        target: The graph that is cut.
        parts: What the block consists of.
        types: Type of each crossing value that the block reads; model inputs come from the target.
        path: The file; large weights go to ``path`` with ``.data`` appended.
        max_embedded_bytes: Size of a block from which on they do.

    Raises:
        ModelRefusedError: If an external weight cannot be read.
    """
    model = block_model(target, parts, types)
    external = [tensor for tensor in tensors_of(model) if tensor.data_location == TensorProto.EXTERNAL]
    size = sum(_stored_bytes(tensor) for tensor in external)
    if size + model.ByteSize() <= max_embedded_bytes:
        for tensor in external:
            _load(tensor, target.folder)
    else:
        _write_data_file(external, target.folder, path.with_name(path.name + ".data"))
    path.write_bytes(model.SerializeToString())


def block_model(target: Target, parts: BlockParts, types: Mapping[str, TensorSpec]) -> ModelProto:
    """The block in memory; weights that are references stay references.

    Opset imports, IR version, metadata, documentation and quantisation annotations are the whole model's. Outputs
    carry no shape: the runtime infers it, and a wrong one in the user's file is not passed on.
    """
    whole = target.model
    model = ModelProto()
    for field in ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string"):
        setattr(model, field, getattr(whole, field))
    model.opset_import.extend(whole.opset_import)
    model.metadata_props.extend(whole.metadata_props)
    graph = model.graph
    graph.name = whole.graph.name or "block"
    graph.doc_string = whole.graph.doc_string
    graph.metadata_props.extend(whole.graph.metadata_props)
    graph.node.extend(whole.graph.node[index] for index in parts.operators)
    needed = set(parts.constants)
    graph.initializer.extend(tensor for tensor in whole.graph.initializer if tensor.name in needed)
    graph.sparse_initializer.extend(t for t in whole.graph.sparse_initializer if t.values.name in needed)
    declared = {value.name: value for value in whole.graph.input}
    graph.input.extend(declared[name] if name in declared else value_info(types[name]) for name in parts.inputs)
    outputs = {value.name: value for value in whole.graph.output}
    for name in parts.outputs:
        value = ValueInfoProto(name=name)
        if name in outputs:
            value.type.CopyFrom(outputs[name].type)
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
        graph.output.append(value)
    known = {name for node in graph.node for name in (*node.input, *node.output)}
    graph.quantization_annotation.extend(a for a in whole.graph.quantization_annotation if a.tensor_name in known)
    model.functions.extend(Functions(whole.functions).reached(graph.node))
    return model


def _load(tensor: TensorProto, folder: Path) -> None:
    """Put the bytes of an external tensor into it; reads that tensor's part of the file only."""
    try:
        load_external_data_for_tensor(tensor, str(folder))
    except Exception as error:  # several classes, by how the file is wrong
        raise ModelRefusedError(f"external data of tensor {tensor.name!r}: {one_line(error)}") from error
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]


def _stored_bytes(tensor: TensorProto) -> int:
    stated = next((int(entry.value) for entry in tensor.external_data if entry.key == "length"), 0)
    if stated:
        return stated
    count = 8
    for dim in tensor.dims:
        count *= dim
    return count


def _write_data_file(external: list[TensorProto], folder: Path, path: Path) -> None:
    """Copy external weights one after another into ``path`` and let the tensors refer to it."""
    with path.open("wb") as file:
        for tensor in external:
            _load(tensor, folder)
            raw = tensor.raw_data
            file.write(b"\0" * (-file.tell() % 4096))
            offset = file.tell()
            file.write(raw)
            set_external_data(tensor, path.name, offset=offset, length=len(raw))
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
