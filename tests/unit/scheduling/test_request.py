"""What a request may be, and that errors survive the way through Ray."""

from __future__ import annotations

import inspect
import pickle
from math import inf, nan

import pytest

from deployments.scheduling import errors
from deployments.scheduling.errors import InvalidRequestError, SchedulingError

from .builders import request

ARGUMENTS = {
    "request_id": "r1",
    "problem": "is wrong",
    "holders": ("r2",),
    "holder": "r2",
    "num_waiting": 3,
    "max_waiting": 2,
    "model": "m",
    "predicted_wait_s": 0.5,
    "allowed_wait_s": 0.25,
    "waited_s": 1.5,
    "kind": "policy",
    "name": "x",
    "policy": "slo",
    "option": "alpha",
    "value": 4,
    "allowed": "numbers",
}
CLASSES = [
    each
    for _, each in inspect.getmembers(errors, inspect.isclass)
    if issubclass(each, SchedulingError) and each is not SchedulingError
]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("isolated_s", 0.0),
        ("isolated_s", inf),
        ("arrival_s", nan),
        ("deadline_s", nan),
        ("priority", 0),
    ],
)
def test_a_request_that_cannot_be_scheduled_is_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidRequestError, match=f"request 'r' cannot be scheduled.*{field}"):
        request("r", **{field: value})  # type: ignore[arg-type]


def test_block_times_are_numbers_of_at_least_zero() -> None:
    with pytest.raises(InvalidRequestError, match="block_times_s has -1"):
        request("r", 1.0, -1.0, isolated_s=1.0)


def test_a_request_may_have_no_deadline() -> None:
    assert request("r", deadline_s=inf).deadline_s == inf


@pytest.mark.parametrize("error_class", CLASSES)
def test_an_error_survives_pickling_with_its_fields_and_message(error_class: type[SchedulingError]) -> None:
    names = list(inspect.signature(error_class).parameters)
    error = error_class(*(ARGUMENTS[name] for name in names))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is error_class
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
