"""Values between numpy and ONNX Runtime, whose Python interface does not carry text and the types of ``ml_dtypes``."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import onnxruntime as ort

_ODD_TYPES: dict[str, tuple[int, np.dtype]] = {  # name in ONNX Runtime: number in ONNX, dtype in numpy
    "bfloat16": (16, np.dtype(ml_dtypes.bfloat16)),
    "float8e4m3fn": (17, np.dtype(ml_dtypes.float8_e4m3fn)),
    "float8e4m3fnuz": (18, np.dtype(ml_dtypes.float8_e4m3fnuz)),
    "float8e5m2": (19, np.dtype(ml_dtypes.float8_e5m2)),
    "float8e5m2fnuz": (20, np.dtype(ml_dtypes.float8_e5m2fnuz)),
    "uint4": (21, np.dtype(ml_dtypes.uint4)),
    "int4": (22, np.dtype(ml_dtypes.int4)),
    "float4e2m1": (23, np.dtype(ml_dtypes.float4_e2m1fn)),
    "float8e8m0": (24, np.dtype(ml_dtypes.float8_e8m0fnu)),
    "uint2": (25, np.dtype(ml_dtypes.uint2)),
    "int2": (26, np.dtype(ml_dtypes.int2)),
}
_ODD_NAMES = {dtype: name for name, (_, dtype) in _ODD_TYPES.items()}
_NUM_BITS = {"uint4": 4, "int4": 4, "float4e2m1": 4, "uint2": 2, "int2": 2}  # several to a byte, the first one lowest
_ONNX_STRING = 8
_ONNX_ATTRIBUTE_TENSOR = 4
_IR_VERSION = 10
_OPSET = 21


def to_ort(array: np.ndarray, device: str, index: int) -> ort.OrtValue:
    """The array as a value on the device; numbers on the CPU are not copied if they lie row by row.

    Text and the types of ``ml_dtypes`` stay on the CPU: a session takes them from there. Text costs a session of its
    own, about 0.5 ms and 3 us a string, because ONNX Runtime makes such values in no other way.

    Args:
        array: Text as ``object`` array of ``str`` or UTF-8 ``bytes``, or of fixed width.
        device: ``cpu`` or ``cuda``.
        index: Which of them.
    """
    if array.dtype.kind in "OUS":
        return _text_value(array)
    in_order = np.asarray(array, order="C")  # np.ascontiguousarray would make rank 0 rank 1
    if (name := _ODD_NAMES.get(array.dtype)) is not None:
        return _odd_value(in_order, name)
    return ort.OrtValue.ortvalue_from_numpy(in_order, device, index)


def to_numpy(value: ort.OrtValue) -> np.ndarray:
    """The array that a tensor holds: text as ``object`` array of ``str``, bfloat16 and the like in ``ml_dtypes``.

    Of a value that a session made it may be a view that keeps the memory; of one from ``to_ort`` it is good only as
    long as that value lives.
    """
    name = value.data_type().removeprefix("tensor(").removesuffix(")")
    if name not in _ODD_TYPES:
        array: np.ndarray = value.numpy()
        return array
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()) if 0 not in value.shape() else b""
    shape, dtype = value.shape(), numpy_dtype(name)
    if (num_bits := _NUM_BITS.get(name)) is None:
        return np.frombuffer(data, dtype).reshape(shape)
    shifts = np.arange(0, 8, num_bits, dtype=np.uint8)
    items = (np.frombuffer(data, np.uint8)[:, None] >> shifts).reshape(-1)[: np.prod(shape, dtype=np.int64)]
    unpacked: np.ndarray = (items & (2**num_bits - 1)).view(dtype).reshape(shape)
    return unpacked


def numpy_dtype(name: str) -> np.dtype:
    """The numpy dtype of an element type as plans name it; text is ``object``."""
    if name == "string":
        return np.dtype(object)
    return _ODD_TYPES[name][1] if name in _ODD_TYPES else np.dtype(name)


def _odd_value(array: np.ndarray, name: str) -> ort.OrtValue:
    number = _ODD_TYPES[name][0]
    if (num_bits := _NUM_BITS.get(name)) is None:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, number)
    items = array.reshape(-1).view(np.uint8) & (2**num_bits - 1)
    per_byte = 8 // num_bits
    padded = np.zeros(-(-len(items) // per_byte) * per_byte, np.uint8)
    padded[: len(items)] = items
    shifted = padded.reshape(-1, per_byte) << np.arange(0, 8, num_bits, dtype=np.uint8)
    packed = np.bitwise_or.reduce(shifted, axis=1)
    value: ort.OrtValue = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), number)
    if packed.size:
        ctypes.memmove(value.data_ptr(), packed.ctypes.data, packed.nbytes)
    return value


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
