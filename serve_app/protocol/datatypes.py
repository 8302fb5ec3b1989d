"""The protocol's datatypes, and the numpy and ONNX types they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np

Family = Literal["bool", "int", "float", "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Datatype:
    """One datatype of the Open Inference Protocol.

    Attributes:
        name: As it stands in requests and responses.
        onnx_name: As it stands in a ``TensorSpec``.
        dtype: Type of the arrays. BYTES is ``object`` arrays of ``str``: ONNX strings are UTF-8, and ONNX Runtime
            would turn ``bytes`` objects into the text ``"b'...'"``.
        family: What a JSON element must be.
    """

    name: str
    onnx_name: str
    dtype: np.dtype[Any]
    family: Family


DATATYPES: tuple[Datatype, ...] = (
    Datatype(name="BOOL", onnx_name="bool", dtype=np.dtype(np.bool_), family="bool"),
    Datatype(name="UINT8", onnx_name="uint8", dtype=np.dtype(np.uint8), family="int"),
    Datatype(name="UINT16", onnx_name="uint16", dtype=np.dtype(np.uint16), family="int"),
    Datatype(name="UINT32", onnx_name="uint32", dtype=np.dtype(np.uint32), family="int"),
    Datatype(name="UINT64", onnx_name="uint64", dtype=np.dtype(np.uint64), family="int"),
    Datatype(name="INT8", onnx_name="int8", dtype=np.dtype(np.int8), family="int"),
    Datatype(name="INT16", onnx_name="int16", dtype=np.dtype(np.int16), family="int"),
    Datatype(name="INT32", onnx_name="int32", dtype=np.dtype(np.int32), family="int"),
    Datatype(name="INT64", onnx_name="int64", dtype=np.dtype(np.int64), family="int"),
    Datatype(name="FP16", onnx_name="float16", dtype=np.dtype(np.float16), family="float"),
    Datatype(name="FP32", onnx_name="float32", dtype=np.dtype(np.float32), family="float"),
    Datatype(name="FP64", onnx_name="float64", dtype=np.dtype(np.float64), family="float"),
    Datatype(name="BF16", onnx_name="bfloat16", dtype=np.dtype(ml_dtypes.bfloat16), family="float"),
    Datatype(name="BYTES", onnx_name="string", dtype=np.dtype(np.object_), family="bytes"),
)

_BY_NAME = {datatype.name: datatype for datatype in DATATYPES}
_BY_ONNX_NAME = {datatype.onnx_name: datatype for datatype in DATATYPES}
_BY_DTYPE = {datatype.dtype: datatype for datatype in DATATYPES}


def datatype_named(name: str) -> Datatype | None:
    """The datatype that the protocol calls ``name``, None if it has none."""
    return _BY_NAME.get(name)


def datatype_of_onnx(onnx_name: str) -> Datatype | None:
    """The datatype for an element type as ``TensorSpec.dtype`` spells it; None for those the protocol lacks."""
    return _BY_ONNX_NAME.get(onnx_name)


def datatype_of_array(dtype: np.dtype[Any]) -> Datatype | None:
    """The datatype for arrays of ``dtype``; fixed-width text counts as BYTES; None for those the protocol lacks."""
    if dtype.kind in "US":
        return _BY_NAME["BYTES"]
    return _BY_DTYPE.get(dtype)
