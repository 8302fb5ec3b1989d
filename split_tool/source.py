"""The user's model: read without its external weights, checked, and brought into one form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from split_tool.errors import ModelRefusedError
from split_tool.plan import PLAN_FILE, WHOLE_MODEL_FILE, TensorSpec, sha256_of_file
from split_tool.values import spec_from_value_info

BLOCK_FOLDER = "blocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A model file as the user has it.

    Attributes:
        path: The file.
        sha256: Its hash.
        model: Its content; external weights are not loaded. IR version at least 4, and no initializer is listed as
            an input, so that the inputs are what a request gives.
        external_files: Files with its external weights, relative to its folder, sorted.
        inputs: What a request gives.
        outputs: What the model gives; a name may stand there twice.
    """

    path: Path
    sha256: str
    model: ModelProto
    external_files: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def folder(self) -> Path:
        """Where its external weights lie: the file's folder, links followed."""
        return self.path.resolve().parent


def read_source(path: Path) -> Source:
    """Read and check a model file; of its external weights only the names are looked at.

    Raises:
        ModelRefusedError: If the file is missing or no model, or external weights lie outside its folder.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ModelRefusedError(f"cannot read {path}: {error.strerror}") from error
    model = ModelProto()
    try:
        model.ParseFromString(raw)
    except DecodeError as error:
        raise ModelRefusedError(f"{path} is no ONNX model, or is truncated: fetch it again") from error
    if not model.graph.output:
        raise ModelRefusedError(f"{path} is no ONNX model with outputs, or is truncated: fetch it again")
    external = _external_files(path, model)
    weights = initializer_names(model.graph)
    inputs = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)
    return Source(
        path=path,
        sha256=sha256_of_file(path),
        model=model,
        external_files=external,
        inputs=tuple(spec_from_value_info(value) for value in inputs),
        outputs=tuple(_output_spec(model, value.name) for value in model.graph.output),
    )


def initializer_names(graph: GraphProto) -> set[str]:
    """Names of the dense and the sparse initializers."""
    dense = {tensor.name for tensor in graph.initializer}
    return dense | {tensor.values.name for tensor in graph.sparse_initializer}


def tensors_of(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor stored in the model: initializers and attributes, in subgraphs and functions too."""
    yield from _tensors_of_graph(model.graph)
    for function in model.functions:
        yield from _tensors_of_nodes(function.node)


def _tensors_of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == AttributeProto.TENSORS:
                yield from attribute.tensors
            elif attribute.type == AttributeProto.GRAPH:
                yield from _tensors_of_graph(attribute.g)
            elif attribute.type == AttributeProto.GRAPHS:
                for graph in attribute.graphs:
                    yield from _tensors_of_graph(graph)


def _external_files(path: Path, model: ModelProto) -> tuple[str, ...]:
    """External files the model names; refuses every name that is not plainly inside the model's folder."""
    folder = path.resolve().parent
    found: set[str] = set()
    for tensor in tensors_of(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        parts = PurePosixPath(location).parts
        is_inside = bool(parts) and ".." not in parts and not location.startswith("/") and "\\" not in location
        if not is_inside or ":" in parts[0] or not (folder / location).resolve().is_relative_to(folder):
            raise ModelRefusedError(
                f"external data {location!r} of tensor {tensor.name!r} leaves the model's folder: "
                "nothing outside it is read; put the weights beside the model"
            )
        if not (folder / location).is_file():
            raise ModelRefusedError(f"external data {location!r} of tensor {tensor.name!r} is missing beside {path}")
        if parts[0] in (BLOCK_FOLDER, PLAN_FILE, WHOLE_MODEL_FILE):
            raise ModelRefusedError(f"external data {location!r} would overwrite a file of the plan: rename it")
        found.add(str(PurePosixPath(location)))
    return tuple(sorted(found))


def _output_spec(model: ModelProto, name: str) -> TensorSpec:
    value = next(value for value in model.graph.output if value.name == name)
    return spec_from_value_info(value)
