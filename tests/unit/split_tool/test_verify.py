"""What counts as the same result."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from split_tool.errors import NotEquivalentError
from split_tool.plan import TensorSpec
from split_tool.verify import Comparison, is_quantised

SPEC = TensorSpec(name="y", dtype="float32", shape=None)


def comparison(*, quantised: bool = False) -> Comparison:
    return Comparison(outputs=[SPEC], is_quantised=quantised)


def test_equal_values_and_equal_nans_are_bit_identical() -> None:
    values = np.asarray([1.0, np.nan, np.inf], dtype=np.float32)
    compared = comparison()
    compared.add([values], [values.copy()])
    proof = compared.proof(seed=3, cause="rounding")
    assert (proof.verdict, proof.cause, proof.max_abs_difference) == ("bit-identical", None, 0.0)


def test_a_rounding_difference_is_accepted_and_recorded_with_its_cause() -> None:
    compared = comparison()
    compared.add([np.asarray([1.0, 2.0], np.float32)], [np.asarray([1.0, 2.0000002], np.float32)])
    proof = compared.proof(seed=3, cause="rounding")
    assert (proof.verdict, proof.cause) == ("within-tolerance", "rounding")
    assert 0 < proof.max_abs_difference < 1e-6
    assert proof.tolerances[0].rtol == 1e-4


@pytest.mark.parametrize(
    ("whole", "chain"),
    [([1.0], [1.1]), ([1.0], [np.nan]), ([1.0], [1.0, 2.0])],
)
def test_other_values_and_shapes_are_not_equivalent(whole: list[float], chain: list[float]) -> None:
    with pytest.raises(NotEquivalentError):
        comparison().add([np.asarray(whole, np.float32)], [np.asarray(chain, np.float32)])


def test_integers_must_be_equal_unless_the_model_is_quantised() -> None:
    whole, chain = np.asarray([100], np.int32), np.asarray([101], np.int32)
    with pytest.raises(NotEquivalentError):
        comparison().add([whole], [chain])
    comparison(quantised=True).add([whole], [chain])


def test_quantised_operators_are_recognised() -> None:
    assert is_quantised([helper.make_node("QLinearConv", ["x"], ["y"])])
    assert not is_quantised([helper.make_node("Conv", ["x", "w"], ["y"])])
