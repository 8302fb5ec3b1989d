"""The elements of a tensor as they stand in JSON, to an array."""

from __future__ import annotations

import math
import types
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from serve_app.protocol.datatypes import Datatype, Family
from serve_app.protocol.errors import DataSizeError, DataValueError, ShapeError

_ELEMENT_TYPE: dict[Family, Any] = {"bool": bool | int, "int": int, "float": float, "bytes": str}
_ELEMENT_WORDS: dict[Family, str] = {
    "bool": "true, false, 1 or 0",
    "int": "whole numbers",
    "float": "numbers",
    "bytes": "strings",
}


def array_from_json(name: str, datatype: Datatype, shape: tuple[int, ...], data: Any) -> npt.NDArray[Any]:
    """The input ``name`` as a new array of ``shape``; O(elements).

    Args:
        name: For messages.
        datatype: What the elements are.
        shape: Checked against the model already.
        data: ``msgspec.Raw``, or parsed values; elements flat in row-major order, or nested like the shape.

    Raises:
        ShapeError: If it is nested otherwise than the shape says.
        DataSizeError: If there are more or fewer elements than the shape has.
        DataValueError: If an element is no value of the datatype.
    """
    depth = _nesting_depth(data)
    # The nesting of an empty tensor ends at its first empty axis.
    if depth not in (1, len(shape)) and not (0 in shape and depth < len(shape)):
        raise ShapeError(
            f"input '{name}': data is nested {depth} lists deep; give one flat list, or nest it like "
            f"the shape {list(shape)}"
        )
    elements = _typed(name, datatype, data, depth)
    if depth != 1:
        elements = _flatten(name, elements, shape[:depth])
    expected = math.prod(shape)
    if len(elements) != expected:
        raise DataSizeError(
            f"input '{name}': data has {len(elements)} elements, the shape {list(shape)} needs {expected}"
        )
    return _array_of(name, datatype, elements).reshape(shape)


def _nesting_depth(data: Any) -> int:
    """How many lists open before the first element; a depth past 100 is as good as any other wrong one."""
    depth = 0
    if isinstance(data, msgspec.Raw):
        for char in bytes(memoryview(data)[:1000]):
            if char == ord("["):
                depth += 1
            elif char not in b" \t\r\n":
                break
        return depth
    while isinstance(data, list):
        depth += 1
        if not data:
            break
        data = data[0]
    return depth


@lru_cache(maxsize=256)
def _decoder(family: Family, depth: int) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_nested_type(family, depth))


def _nested_type(family: Family, depth: int) -> Any:
    nested: Any = _ELEMENT_TYPE[family]
    for _ in range(depth):
        nested = types.GenericAlias(list, (nested,))
    return nested


def _typed(name: str, datatype: Datatype, data: Any, depth: int) -> Any:
    """``data`` as lists ``depth`` deep whose elements are all of the datatype's family."""
    try:
        if isinstance(data, msgspec.Raw):
            return _decoder(datatype.family, depth).decode(data)
        return msgspec.convert(data, _nested_type(datatype.family, depth))
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise DataValueError(
            f"input '{name}': the elements of {datatype.name} data must be {_ELEMENT_WORDS[datatype.family]} ({error})"
        ) from error


def _flatten(name: str, data: Any, nested_shape: tuple[int, ...]) -> Sequence[Any]:
    """The elements in row-major order, out of lists that must have the lengths that ``nested_shape`` says."""
    level: list[Any] = [data]
    for axis, length in enumerate(nested_shape):
        lengths = set(map(len, level))
        if not lengths <= {length}:
            raise ShapeError(
                f"input '{name}': data has lists of {sorted(lengths)} entries in axis {axis}, the shape says {length}"
            )
        level = list(chain.from_iterable(level))
    return level


def _array_of(name: str, datatype: Datatype, elements: Sequence[Any]) -> npt.NDArray[Any]:
    """The elements as a flat array; their Python types are right already, their values may not fit."""
    match datatype.family:
        case "bytes":
            strings = np.empty(len(elements), dtype=object)
            strings[:] = elements
            return strings
        case "bool":
            if not set(elements) <= {0, 1}:
                raise DataValueError(f"input '{name}': the elements of BOOL data must be true, false, 1 or 0")
            return np.array(elements, dtype=np.bool_)
        case "int":
            try:
                return np.array(elements, dtype=datatype.dtype)
            except OverflowError as error:
                raise DataValueError(_out_of_range(name, datatype, elements)) from error
        case "float":
            return _float_array_of(name, datatype, elements)


def _float_array_of(name: str, datatype: Datatype, elements: Sequence[float]) -> npt.NDArray[Any]:
    exact = np.array(elements, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        array = exact.astype(datatype.dtype, copy=False)
    overflown = np.isinf(array.astype(np.float32) if datatype.name == "BF16" else array) & np.isfinite(exact)
    if overflown.any():
        raise DataValueError(
            f"input '{name}': {exact[overflown][0]} is out of range for {datatype.name}; "
            "write Infinity if that is what you mean"
        )
    return array


def _out_of_range(name: str, datatype: Datatype, elements: Sequence[int]) -> str:
    bounds = np.iinfo(datatype.dtype)
    outside = next(element for element in elements if not bounds.min <= element <= bounds.max)
    shown = str(outside) if outside.bit_length() < 200 else f"a number of {outside.bit_length()} bits"
    return f"input '{name}': {shown} is out of range for {datatype.name} ({bounds.min} to {bounds.max})"
