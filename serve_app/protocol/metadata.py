"""Metadata of the server and of a model, as the Open Inference Protocol v2 gives them."""

from __future__ import annotations

import msgspec

from serve_app.protocol.datatypes import datatype_of_onnx
from split_tool.plan import SplitPlan, TensorSpec

SERVER_NAME = "dlir-serve"
EXTENSIONS = ("binary_tensor_data",)
PLATFORM = "onnxruntime_onnx"


class ServerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to ``GET /v2``."""

    name: str
    version: str
    extensions: tuple[str, ...]


class TensorMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output of a model.

    Attributes:
        name: As requests spell it.
        datatype: The protocol's name; the ONNX name for the few types that the protocol lacks.
        shape: -1 for a dynamic axis; empty for rank 0 and where not even the rank is known.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]


class ModelMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to ``GET /v2/models/MODEL``.

    Attributes:
        name: Name of the model.
        versions: Those served.
        platform: Always ``onnxruntime_onnx``.
        inputs: What it takes.
        outputs: What it gives.
        parameters: Ours, beyond the protocol: ``isolated_ms`` and ``num_blocks`` of the split plan.
    """

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]
    parameters: dict[str, float | int | str] = {}


def server_metadata(version: str) -> ServerMetadata:
    """Metadata of this server, of the given version."""
    return ServerMetadata(name=SERVER_NAME, version=version, extensions=EXTENSIONS)


def model_metadata(plan: SplitPlan, *, name: str, versions: tuple[str, ...]) -> ModelMetadata:
    """Metadata of the model that is served from ``plan`` under ``name``."""
    return ModelMetadata(
        name=name,
        versions=versions,
        platform=PLATFORM,
        inputs=tuple(_tensor_metadata(spec) for spec in plan.inputs),
        outputs=tuple(_tensor_metadata(spec) for spec in plan.outputs),
        parameters={"isolated_ms": plan.isolated_ms, "num_blocks": len(plan.blocks)},
    )


def encode_json(answer: msgspec.Struct) -> bytes:
    """The answer as an HTTP body of ``application/json``."""
    return msgspec.json.encode(answer)


def _tensor_metadata(spec: TensorSpec) -> TensorMetadata:
    datatype = datatype_of_onnx(spec.dtype)
    return TensorMetadata(
        name=spec.name,
        datatype=spec.dtype if datatype is None else datatype.name,
        shape=tuple(axis if isinstance(axis, int) else -1 for axis in spec.shape or ()),
    )
