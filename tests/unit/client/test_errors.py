"""What the server tells of an error is what a Python client raises."""

from __future__ import annotations

from typing import Any

import pytest

from deployments.runtime import errors as runtime
from deployments.scheduling import errors as scheduling
from serve_app.client.errors import ServerFaultError, ServerUnreachableError, error_from_http
from serve_app.protocol import errors as protocol
from serve_app.status import STATUS_OF, error_reply

OURS = [kind for kind in STATUS_OF if kind.__module__ in {m.__name__ for m in (protocol, runtime, scheduling)}]
ARGUMENTS: dict[type[BaseException], tuple[Any, ...]] = {
    scheduling.QueueFullError: ("r-1", 7, 7),
    scheduling.ModelQueueFullError: ("r-1", "vgg19", 7, 7),
    scheduling.RefusedError: ("r-1", 4.25, 1.0),
    scheduling.WaitTimeoutError: ("r-1", 0.5),
    scheduling.InvalidRequestError: ("r-1", "priority is −1"),
}


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_an_error_of_the_table_arrives_as_it_was_raised(kind: type[BaseException]) -> None:
    raised = kind(*ARGUMENTS.get(kind, ("the input “x” is wrong",)))
    reply = error_reply(raised, fault_id="id")
    headers = {name.lower(): value for name, value in reply.headers.items()}
    assert all(value.isascii() for value in headers.values())
    arrived = error_from_http(reply.http, headers, reply.body)
    assert type(arrived) is kind
    assert (arrived.args, str(arrived)) == (raised.args, str(raised))


def test_a_fault_is_told_as_one_with_its_id() -> None:
    reply = error_reply(ZeroDivisionError("secret"), fault_id="7f3a")
    arrived = error_from_http(reply.http, reply.headers, reply.body)
    assert type(arrived) is ServerFaultError
    assert "7f3a" in str(arrived)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (500, b"<html><h1>500 Internal Server Error</h1></html>", ServerUnreachableError),
        (503, b"No server is available", ServerUnreachableError),
        (408, b"Request 7 timed out after 1s.", runtime.DeadlineExceededError),
        (404, b"Path '/v2/models/x/infer' not found.", protocol.UnknownModelError),
    ],
)
def test_what_a_proxy_answers_by_itself_is_no_fault_of_the_model(status: int, body: bytes, kind: type) -> None:
    assert type(error_from_http(status, {}, body)) is kind
