"""The elements of a tensor as the binary tensor extension carries them, to an array."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from serve_app.protocol.datatypes import Datatype
from serve_app.protocol.errors import DataSizeError, DataValueError

_LENGTH = struct.Struct("<I")


def array_from_binary(name: str, datatype: Datatype, shape: tuple[int, ...], data: memoryview) -> npt.NDArray[Any]:
    """The input ``name`` as an array of ``shape``: a read-only view on ``data``, without a copy, except for BYTES.

    The view starts wherever the client's JSON ended, so ``array.flags.aligned`` may be false. ONNX Runtime takes
    such arrays on CPU and gives equal results; code that needs alignment copies.

    Args:
        name: For messages.
        datatype: What the elements are.
        shape: Checked against the model already.
        data: Exactly the bytes of this tensor, little-endian, row-major.

    Raises:
        DataSizeError: If they are more or fewer than the shape needs.
        DataValueError: If an element is no value of the datatype.
    """
    num_elements = math.prod(shape)
    if datatype.family == "bytes":
        return _strings_from_binary(name, num_elements, data).reshape(shape)
    expected_bytes = num_elements * datatype.dtype.itemsize
    if data.nbytes != expected_bytes:
        raise DataSizeError(
            f"input '{name}': binary_data_size is {data.nbytes}, {datatype.name} of shape {list(shape)} "
            f"needs {expected_bytes}"
        )
    if num_elements == 0:
        return np.empty(shape, dtype=datatype.dtype)
    array = np.frombuffer(data, dtype=datatype.dtype)
    # A byte other than 0 and 1 is no bool to the compiled kernels that will read it.
    if datatype.family == "bool" and array.view(np.uint8).max() > 1:
        raise DataValueError(f"input '{name}': BOOL data holds the byte {array.view(np.uint8).max()}, allowed: 0 and 1")
    return array.reshape(shape)


def _strings_from_binary(name: str, num_elements: int, data: memoryview) -> npt.NDArray[np.object_]:
    """Each element: its length in bytes as uint32, then UTF-8 text; O(elements)."""
    if data.nbytes < num_elements * _LENGTH.size:
        raise DataSizeError(
            f"input '{name}': {data.nbytes} bytes cannot hold {num_elements} BYTES elements of 4 bytes "
            "length prefix each"
        )
    strings = np.empty(num_elements, dtype=object)
    offset = 0
    for index in range(num_elements):
        if offset + _LENGTH.size > data.nbytes:
            raise DataSizeError(f"input '{name}': binary data ends after {index} of {num_elements} BYTES elements")
        (length,) = _LENGTH.unpack_from(data, offset)
        offset += _LENGTH.size
        if length > data.nbytes - offset:
            raise DataSizeError(
                f"input '{name}': BYTES element {index} claims {length} bytes, {data.nbytes - offset} are left"
            )
        try:
            strings[index] = str(data[offset : offset + length], "utf-8")
        except UnicodeDecodeError as error:
            raise DataValueError(
                f"input '{name}': BYTES element {index} is not UTF-8 ({error.reason}); ONNX strings are UTF-8 text"
            ) from error
        offset += length
    if offset != data.nbytes:
        raise DataSizeError(
            f"input '{name}': {data.nbytes - offset} bytes are left over after {num_elements} BYTES elements"
        )
    return strings
