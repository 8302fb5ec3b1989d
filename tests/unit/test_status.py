"""The table of errors and their HTTP and gRPC codes."""

from __future__ import annotations

import asyncio
import json
import pickle

import grpc
import pytest
from ray.exceptions import ActorDiedError
from ray.serve.exceptions import BackPressureError, RequestCancelledError

from deployments.runtime import errors as runtime
from deployments.scheduling import errors as scheduling
from serve_app.protocol import errors as protocol
from serve_app.status import INTERNAL, STATUS_OF, error_reply, status_of


def test_every_code_of_the_table_is_one_of_grpcs() -> None:
    assert {status.grpc for status in [*STATUS_OF.values(), INTERNAL]} <= {code.name for code in grpc.StatusCode}


@pytest.mark.parametrize(
    ("error", "http", "code"),
    [
        (protocol.ShapeError("bad shape"), 400, "INVALID_ARGUMENT"),
        (asyncio.CancelledError(), 499, "CANCELLED"),
        (protocol.UnknownModelError("no model"), 404, "NOT_FOUND"),
        (protocol.JsonTooLargeError("large"), 413, "RESOURCE_EXHAUSTED"),
        (scheduling.QueueFullError("r", 10, 10), 503, "RESOURCE_EXHAUSTED"),
        (scheduling.ModelQueueFullError("r", "m", 10, 10), 503, "RESOURCE_EXHAUSTED"),
        (runtime.DeadlineExceededError("late"), 504, "DEADLINE_EXCEEDED"),
        (runtime.ReplicaClosedError("closed"), 503, "UNAVAILABLE"),
        (runtime.DataRefusedError("index 9 is out of range"), 400, "INVALID_ARGUMENT"),
        (BackPressureError(3, 3), 503, "RESOURCE_EXHAUSTED"),
        (RequestCancelledError("r"), 499, "CANCELLED"),
        (ActorDiedError(), 503, "UNAVAILABLE"),
    ],
)
def test_an_error_has_its_status_and_tells_its_message(error: BaseException, http: int, code: str) -> None:
    reply = error_reply(error, fault_id="id")
    assert (reply.http, reply.grpc) == (http, code)
    assert json.loads(reply.body) == {"error": str(error)}
    assert reply.is_fault is False
    assert ("Retry-After" in reply.headers) == (http == 503)


def test_an_unknown_error_is_a_fault_and_only_its_id_is_told() -> None:
    reply = error_reply(ZeroDivisionError("secret"), fault_id="7f3a")
    assert (reply.http, reply.grpc, reply.is_fault) == (500, "INTERNAL", True)
    assert "7f3a" in json.loads(reply.body)["error"]
    assert b"secret" not in reply.body


def test_a_refused_request_is_told_when_to_come_back() -> None:
    refused = scheduling.RefusedError("r", predicted_wait_s=4.2, allowed_wait_s=1.0)
    assert error_reply(refused, fault_id="id").headers["Retry-After"] == "4"


def test_an_error_wrapped_on_its_way_counts_as_its_cause() -> None:
    class WrappedError(Exception):
        cause = protocol.ShapeError("bad shape")

    reply = error_reply(WrappedError("traceback"), fault_id="id")
    assert reply.http == 400
    assert reply.message == "bad shape"


def test_a_class_without_entry_has_the_status_of_its_base() -> None:
    class NewError(protocol.JsonTooLargeError):
        """A subclass that nobody has entered."""

    assert status_of(NewError("x")).http == 413


def test_an_error_with_a_broken_surrogate_still_becomes_json() -> None:
    assert json.loads(error_reply(protocol.ProtocolError("\ud800"), fault_id="id").body)["error"] == "?"


def test_every_protocol_error_survives_pickling() -> None:
    classes = [value for value in vars(protocol).values() if isinstance(value, type)]
    for error_class in classes:
        if issubclass(error_class, protocol.ProtocolError):
            assert str(pickle.loads(pickle.dumps(error_class("message")))) == "message"
