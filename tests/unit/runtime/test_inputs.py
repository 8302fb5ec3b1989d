"""Which arrays a model takes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from deployments.runtime.errors import InputRefusedError
from deployments.runtime.inputs import check_inputs, sample_inputs
from split_tool.plan import TensorSpec


def spec(dtype: str, shape: tuple[int | str | None, ...] | None, name: str = "x") -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=shape)


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (np.zeros((2, 3), np.float32), spec("float32", (2, 3))),
        (np.zeros((7, 3), np.float32), spec("float32", ("batch", 3))),
        (np.zeros((7, 3), np.float32), spec("float32", (None, 3))),
        (np.zeros((7, 3, 1), np.float32), spec("float32", None)),
        (np.zeros((), np.int64), spec("int64", ())),
        (np.zeros((0, 3), np.bool_), spec("bool", ("n", 3))),
        (np.zeros(2, ml_dtypes.bfloat16), spec("bfloat16", (2,))),
        (np.array(["a", "b"], object), spec("string", (2,))),
        (np.array(["a", "b"]), spec("string", (2,))),
        (np.array([b"a", b"\xc3\xa9"]), spec("string", (2,))),
    ],
)
def test_a_fitting_array_is_taken(array: np.ndarray, wanted: TensorSpec) -> None:
    check_inputs({"x": array}, {"x": wanted})


@pytest.mark.parametrize(
    ("array", "wanted", "message"),
    [
        (np.zeros((2, 3), np.float64), spec("float32", (2, 3)), "dtype float64, the model takes float32"),
        (np.zeros((2, 4), np.float32), spec("float32", (2, 3)), r"shape \[2, 4\], the model takes \[2, 3\]"),
        (np.zeros(2, np.float32), spec("float32", ("batch", 3)), r"takes \['batch', 3\]"),
        ([[1.0]], spec("float32", (1, 1)), "is a list: give a numpy array"),
        (np.array(["a", 1], object), spec("string", (2,)), "other things than str or UTF-8 bytes"),
        (np.array([b"\xff"], object), spec("string", (1,)), "other things than str or UTF-8 bytes"),
    ],
)
def test_another_array_is_refused_with_both_sides_named(array: object, wanted: TensorSpec, message: str) -> None:
    with pytest.raises(InputRefusedError, match=message):
        check_inputs({"x": array}, {"x": wanted})  # type: ignore[dict-item]


def test_missing_and_unknown_inputs_are_named() -> None:
    wanted = {"x": spec("float32", (1,)), "y": spec("float32", (1,), "y")}
    with pytest.raises(InputRefusedError, match="missing input 'y'"):
        check_inputs({"x": np.zeros(1, np.float32)}, wanted)
    with pytest.raises(InputRefusedError, match="no input 'z'; it takes 'x', 'y'"):
        check_inputs({"z": np.zeros(1, np.float32)}, wanted)


def test_samples_fit_what_they_are_made_for() -> None:
    specs = (spec("float32", ("batch", 3)), spec("string", (2,), "s"), spec("bfloat16", (), "b"))
    samples = sample_inputs(specs)
    assert samples is not None
    check_inputs(samples, {each.name: each for each in specs})
    assert sample_inputs((spec("float32", None),)) is None
