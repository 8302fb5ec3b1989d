"""The elements of a tensor as ``InferTensorContents`` of a gRPC request holds them, to an array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from serve_app.protocol.datatypes import Datatype
from serve_app.protocol.errors import DataSizeError, DataValueError, UnsupportedFeatureError
from serve_app.protocol.inference_pb2 import InferTensorContents

_FIELD_OF: dict[str, str] = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def array_from_contents(
    name: str, datatype: Datatype, shape: tuple[int, ...], contents: InferTensorContents
) -> npt.NDArray[Any]:
    """The input ``name`` as a new array of ``shape``; O(elements).

    Args:
        name: For messages.
        datatype: What the elements are.
        shape: Checked against the model already.
        contents: As received; empty for an empty tensor.

    Raises:
        UnsupportedFeatureError: If the datatype has no typed form (FP16 and BF16).
        DataSizeError: If there are more or fewer elements than the shape has, or they stand in another field.
        DataValueError: If an element is no value of the datatype.
    """
    field = _FIELD_OF.get(datatype.name)
    if field is None:
        raise UnsupportedFeatureError(f"input '{name}': {datatype.name} has no typed form, use raw_input_contents")
    others = [each.name for each, _ in contents.ListFields() if each.name != field]
    if others:
        raise DataSizeError(f"input '{name}': {datatype.name} data belongs in {field}, found {', '.join(others)}")
    elements = getattr(contents, field)
    expected = math.prod(shape)
    if len(elements) != expected:
        raise DataSizeError(
            f"input '{name}': {field} has {len(elements)} elements, the shape {list(shape)} needs {expected}"
        )
    if datatype.family == "bytes":
        return _strings(name, elements).reshape(shape)
    array: npt.NDArray[Any] = np.array(elements, dtype=_dtype_of_field(field))
    return _narrowed(name, datatype, array).reshape(shape)


def _dtype_of_field(field: str) -> type[np.generic] | None:
    return {
        "bool_contents": np.bool_,
        "int_contents": np.int32,
        "int64_contents": np.int64,
        "uint_contents": np.uint32,
        "uint64_contents": np.uint64,
        "fp32_contents": np.float32,
        "fp64_contents": np.float64,
    }[field]


def _narrowed(name: str, datatype: Datatype, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array in the datatype's own dtype: 8 and 16 bit integers travel as 32 bit ones."""
    if array.dtype == datatype.dtype:
        return array
    bounds = np.iinfo(datatype.dtype)
    outside = (array < bounds.min) | (array > bounds.max)
    if outside.any():
        raise DataValueError(
            f"input '{name}': {array[outside][0]} is out of range for {datatype.name} ({bounds.min} to {bounds.max})"
        )
    return array.astype(datatype.dtype)


def _strings(name: str, elements: Any) -> npt.NDArray[np.object_]:
    strings = np.empty(len(elements), dtype=object)
    for index, element in enumerate(elements):
        try:
            strings[index] = str(element, "utf-8")
        except UnicodeDecodeError as error:
            raise DataValueError(
                f"input '{name}': BYTES element {index} is not UTF-8 ({error.reason}); ONNX strings are UTF-8 text"
            ) from error
    return strings
