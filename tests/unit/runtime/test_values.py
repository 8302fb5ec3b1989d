"""Values between numpy and ONNX Runtime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from deployments.runtime.values import to_numpy, to_ort

ONE_BYTE = (
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu,
)
PART_OF_A_BYTE = {
    ml_dtypes.int4: 4,
    ml_dtypes.uint4: 4,
    ml_dtypes.float4_e2m1fn: 4,
    ml_dtypes.int2: 2,
    ml_dtypes.uint2: 2,
}


@pytest.mark.parametrize(
    "array",
    [
        np.array(2.5, np.float32),
        np.zeros((0, 3), np.float16),
        np.array([True, False]),
        np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
        np.arange(8, dtype=np.uint64)[::2],
        np.array([[1.5, -np.inf]], ml_dtypes.bfloat16),
        np.array(1.0078125, ml_dtypes.bfloat16),
        np.zeros((0, 3), ml_dtypes.bfloat16),
        *(np.arange(256, dtype=np.uint8).view(dtype) for dtype in ONE_BYTE),
        *(np.arange(2**bits, dtype=np.uint8).view(dtype) for dtype, bits in PART_OF_A_BYTE.items()),
        np.array([[1, -8, 7]], ml_dtypes.int4),
        np.array(-1, ml_dtypes.int2),
        np.zeros((3, 0), ml_dtypes.uint4),
        np.array([["\u00e9", ""], ["x" * 300, "\U0001f600"]], object),
        np.array("scalar", object),
        np.empty((0, 2), object),
    ],
    ids=lambda array: f"{array.dtype} {array.shape}",
)
def test_an_array_comes_back_as_it_went_in(array: np.ndarray) -> None:
    value = to_ort(array, "cpu", 0)
    back = to_numpy(value)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    if array.dtype.isbuiltin == 1:
        np.testing.assert_array_equal(back, array)
    else:  # not all of their values compare
        assert back.tobytes() == array.tobytes()


def test_text_may_be_bytes_or_of_fixed_width() -> None:
    for array in (np.array(["\u00e9".encode()], object), np.array(["\u00e9"]), np.array(["\u00e9".encode()])):
        assert to_numpy(to_ort(array, "cpu", 0)).tolist() == ["\u00e9"]
