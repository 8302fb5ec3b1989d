"""Values and their types between numpy, ONNX and ONNX Runtime; everything crosses a cut as an OrtValue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import NodeProto, TensorProto, TypeProto, ValueInfoProto, helper

from split_tool.errors import ModelRefusedError
from split_tool.plan import TensorSpec

Feeds = Mapping[str, Any]
"""Numpy array per input name (text: object array of str), a list of arrays for a sequence; optionals may be absent."""

_RUNTIME_NAMES = {"float": "float32", "double": "float64"}
_ONNX_NAMES = {"float32": "FLOAT", "float64": "DOUBLE"}


def spec_from_runtime(name: str, type_text: str, shape: Sequence[int | str | None]) -> TensorSpec | None:
    """The spec for what a session reports, for example ``tensor(float)``; None where no plan can name the type.

    The runtime reports an unknown rank and a scalar alike, as ``[]``; both become an unknown rank.
    """
    kind, inner = "tensor", type_text
    for prefix, wrapped in (("seq(", "sequence"), ("optional(", "optional")):
        if inner.startswith(prefix):
            kind, inner = wrapped, inner[len(prefix) : -1]
            break
    if not inner.startswith("tensor("):
        return None
    element = inner[len("tensor(") : -1]
    dims = tuple(None if isinstance(dim, str) and dim.startswith("unk__") else dim for dim in shape)
    return TensorSpec(
        name=name,
        dtype=_RUNTIME_NAMES.get(element, element),
        shape=dims if kind == "tensor" and dims else None,
        kind=kind,  # type: ignore[arg-type]
    )


def spec_from_value_info(value: ValueInfoProto) -> TensorSpec:
    """The spec of a graph input or output as the file declares it.

    Raises:
        ModelRefusedError: If its type is missing, or nested deeper than a plan can name.
    """
    kind, declared = "tensor", value.type
    if declared.HasField("sequence_type"):
        kind, declared = "sequence", declared.sequence_type.elem_type
    elif declared.HasField("optional_type"):
        kind, declared = "optional", declared.optional_type.elem_type
    if not declared.HasField("tensor_type") or not declared.tensor_type.elem_type:
        raise ModelRefusedError(f"the type of {value.name!r} is neither tensor, sequence nor optional of tensors")
    tensor = declared.tensor_type
    element = TensorProto.DataType.Name(tensor.elem_type)
    shape: tuple[int | str | None, ...] | None = None
    if tensor.HasField("shape"):
        shape = tuple(
            dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None) for dim in tensor.shape.dim
        )
    dtype = {onnx: ours for ours, onnx in _ONNX_NAMES.items()}.get(element, element.lower())
    return TensorSpec(name=value.name, dtype=dtype, shape=shape, kind=kind)  # type: ignore[arg-type]


def value_info(spec: TensorSpec) -> ValueInfoProto:
    """The spec as a graph input declares it."""
    shape = list(spec.shape) if spec.shape is not None else None
    tensor = helper.make_tensor_type_proto(onnx_dtype(spec.dtype), shape)
    if spec.kind == "sequence":
        return helper.make_value_info(spec.name, helper.make_sequence_type_proto(tensor))
    if spec.kind == "optional":
        return helper.make_value_info(spec.name, helper.make_optional_type_proto(tensor))
    return helper.make_value_info(spec.name, tensor)


def onnx_dtype(dtype: str) -> int:
    """Number of the element type in ``TensorProto.DataType``."""
    return int(TensorProto.DataType.Value(_ONNX_NAMES.get(dtype, dtype.upper())))


def to_ort(value: Any, spec: TensorSpec) -> ort.OrtValue:
    """An OrtValue on the CPU that holds ``value`` (array, or list of arrays for a sequence)."""
    if isinstance(value, ort.OrtValue):
        return value
    if spec.kind == "sequence":
        items = {
            f"item{index}": to_ort(item, TensorSpec(name="", dtype=spec.dtype, shape=None))
            for index, item in enumerate(value)
        }
        return _run_small(_sequence_node(list(items), spec), items, spec)
    array = np.asarray(value)
    if spec.dtype == "string":
        text = [str(item) for item in array.ravel()]
        tensor = TensorProto(data_type=TensorProto.STRING, dims=array.shape, string_data=[t.encode() for t in text])
        return _run_small(helper.make_node("Constant", [], ["value"], value=tensor), {}, spec)
    if spec.dtype in ("bfloat16", "int4", "uint4", "int2", "uint2", "float4e2m1") or spec.dtype.startswith("float8"):
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, onnx_dtype(spec.dtype))
    return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array) if array.ndim else array)


def from_ort(value: ort.OrtValue, spec: TensorSpec) -> Any:
    """The numpy array (list of arrays, None for an empty optional) that an OrtValue holds.

    bfloat16 comes back as float32, which holds every bfloat16 exactly; 4-bit integers as int32.
    """
    if not value.has_value():
        return None
    if value.is_tensor_sequence():
        kind: Any = "sequence" if spec.kind == "sequence" else "tensor"
        inner = TensorSpec(name="value", dtype=spec.dtype, shape=None, kind=kind)
        return _session(helper.make_node("Identity", ["item"], ["value"]), inner).run(None, {"item": value})[0]
    wide = {"bfloat16": TensorProto.FLOAT, "int4": TensorProto.INT32, "uint4": TensorProto.INT32}
    if spec.dtype in wide or spec.dtype.startswith("float8"):
        node = helper.make_node("Cast", ["item"], ["value"], to=wide.get(spec.dtype, TensorProto.FLOAT))
        return _session(node, TensorSpec(name="value", dtype=spec.dtype, shape=None)).run(None, {"item": value})[0]
    return value.numpy()


def size_bytes(value: ort.OrtValue) -> int | None:
    """Bytes of a tensor; None for text and for everything that is no tensor."""
    if not value.has_value() or not value.is_tensor() or "string" in value.data_type():
        return None
    return int(value.tensor_size_in_bytes())


def _sequence_node(items: list[str], spec: TensorSpec) -> NodeProto:
    if items:
        return helper.make_node("SequenceConstruct", items, ["value"])
    return helper.make_node("SequenceEmpty", [], ["value"], dtype=onnx_dtype(spec.dtype))


def _run_small(node: NodeProto, feeds: dict[str, ort.OrtValue], spec: TensorSpec) -> ort.OrtValue:
    return _session(node, spec).run_with_ort_values(["value"], feeds)[0]


def _session(node: NodeProto, spec: TensorSpec) -> ort.InferenceSession:
    """A session of one node: the runtime's Python interface has no other way to make or read these values."""
    element = helper.make_tensor_type_proto(onnx_dtype(spec.dtype), None)
    is_whole = node.op_type == "Identity" and spec.kind == "sequence"
    taken: TypeProto = helper.make_sequence_type_proto(element) if is_whole else element
    inputs = [helper.make_value_info(name, taken) for name in node.input]
    graph = helper.make_graph([node], "value", inputs, [ValueInfoProto(name="value")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
