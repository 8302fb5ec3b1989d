"""Values between numpy and ONNX Runtime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from deployments.runtime.values import to_numpy, to_ort


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
    np.testing.assert_array_equal(back, array)


def test_text_may_be_bytes_or_of_fixed_width() -> None:
    for array in (np.array(["\u00e9".encode()], object), np.array(["\u00e9"]), np.array(["\u00e9".encode()])):
        assert to_numpy(to_ort(array, "cpu", 0)).tolist() == ["\u00e9"]
