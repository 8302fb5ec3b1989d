"""A model's configuration, as the model configuration extension of the Open Inference Protocol v2 tells it."""

from __future__ import annotations

import msgspec

from serve_app.protocol.datatypes import datatype_of_onnx
from serve_app.protocol.metadata import PLATFORM
from split_tool.plan import SplitPlan, TensorSpec

BACKEND = "onnxruntime"


class TensorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output of a model.

    Attributes:
        name: As requests spell it.
        data_type: ``TYPE_FP32`` and so on; ``TYPE_INVALID`` for what the protocol lacks.
        dims: -1 for a dynamic axis; the batch axis, if there is one, is among them.
    """

    name: str
    data_type: str
    dims: tuple[int, ...]


class InputConfig(TensorConfig, frozen=True, kw_only=True):
    """An input; ``optional``: it may be left out."""

    optional: bool


class ConfigParameter(msgspec.Struct, frozen=True, kw_only=True):
    """The value of one entry of ``parameters``."""

    string_value: str


class ModelConfigAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to ``GET /v2/models/MODEL/config``.

    Attributes:
        name: Name of the model.
        platform: Always ``onnxruntime_onnx``.
        backend: Always ``onnxruntime``.
        max_batch_size: Always 0: requests are not batched, and shapes are whole.
        input: What it takes.
        output: What it gives.
        parameters: Ours: ``num_blocks``, ``isolated_ms`` and how the model is served.
    """

    name: str
    platform: str
    backend: str
    max_batch_size: int
    input: tuple[InputConfig, ...]
    output: tuple[TensorConfig, ...]
    parameters: dict[str, ConfigParameter]


def model_config(plan: SplitPlan, *, name: str, served: dict[str, str]) -> ModelConfigAnswer:
    """Configuration of the model that is served from ``plan`` under ``name``.

    Args:
        plan: The split plan.
        name: Name of the model.
        served: How it is served, by name: becomes part of ``parameters``.
    """
    parameters = {"num_blocks": str(len(plan.blocks)), "isolated_ms": f"{plan.isolated_ms:g}"} | served
    return ModelConfigAnswer(
        name=name,
        platform=PLATFORM,
        backend=BACKEND,
        max_batch_size=0,
        input=tuple(
            InputConfig(name=spec.name, data_type=_data_type(spec), dims=_dims(spec), optional=spec.kind == "optional")
            for spec in plan.inputs
        ),
        output=tuple(
            TensorConfig(name=spec.name, data_type=_data_type(spec), dims=_dims(spec)) for spec in plan.outputs
        ),
        parameters={key: ConfigParameter(string_value=value) for key, value in parameters.items()},
    )


def _data_type(spec: TensorSpec) -> str:
    datatype = datatype_of_onnx(spec.dtype)
    if datatype is None:
        return "TYPE_INVALID"
    return "TYPE_STRING" if datatype.name == "BYTES" else f"TYPE_{datatype.name}"


def _dims(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(axis if isinstance(axis, int) else -1 for axis in spec.shape or ())
