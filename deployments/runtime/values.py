"""Values between numpy and ONNX Runtime: what its Python interface does not carry by itself is text and bfloat16."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import onnxruntime as ort

_ONNX_BFLOAT16 = 16
_ONNX_STRING = 8
_ONNX_ATTRIBUTE_TENSOR = 4
_IR_VERSION = 10
_OPSET = 21


def to_ort(array: np.ndarray, device: str, index: int) -> ort.OrtValue:
    """The array as a value on the device; numbers on the CPU are not copied if they lie row by row.

    Text and bfloat16 stay on the CPU: a session takes them from there. Text costs a session of its own, about 0.5 ms
    and 3 us a string, because ONNX Runtime makes such values in no other way.

    Args:
        array: Text as ``object`` array of ``str`` or UTF-8 ``bytes``, or of fixed width.
        device: ``cpu`` or ``cuda``.
        index: Which of them.
    """
    if array.dtype.kind in "OUS":
        return _text_value(array)
    in_order = np.asarray(array, order="C")  # np.ascontiguousarray would make rank 0 rank 1
    if array.dtype == ml_dtypes.bfloat16:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(in_order, _ONNX_BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(in_order, device, index)


def to_numpy(value: ort.OrtValue) -> np.ndarray:
    """The array that a tensor holds: text as ``object`` array of ``str``, bfloat16 as ``ml_dtypes.bfloat16``.

    Of a value that a session made it may be a view that keeps the memory; of one from ``to_ort`` it is good only as
    long as that value lives.
    """
    if value.data_type() != "tensor(bfloat16)":
        array: np.ndarray = value.numpy()
        return array
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()) if 0 not in value.shape() else b""
    return np.frombuffer(data, ml_dtypes.bfloat16).reshape(value.shape())


def _text_value(array: np.ndarray) -> ort.OrtValue:
    """The output of a model that is one constant; the protobuf message is written by hand, so without ``onnx``."""
    strings = [item if isinstance(item, bytes) else str(item).encode() for item in array.reshape(-1).tolist()]
    tensor = b"".join(_varint_field(1, length) for length in array.shape) + _varint_field(2, _ONNX_STRING)
    tensor += b"".join(_bytes_field(6, text) for text in strings)
    attribute = _bytes_field(1, b"value") + _bytes_field(5, tensor) + _varint_field(20, _ONNX_ATTRIBUTE_TENSOR)
    node = _bytes_field(2, b"text") + _bytes_field(4, b"Constant") + _bytes_field(5, attribute)
    graph = _bytes_field(1, node) + _bytes_field(2, b"text") + _bytes_field(12, _bytes_field(1, b"text"))
    opset = _bytes_field(1, b"") + _varint_field(2, _OPSET)
    model = _varint_field(1, _IR_VERSION) + _bytes_field(7, graph) + _bytes_field(8, opset)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    value: ort.OrtValue = session.run_with_ort_values(["text"], {})[0]
    return value


def _varint_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes_field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
