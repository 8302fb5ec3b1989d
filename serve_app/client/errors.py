"""Errors as a client sees them: the class that the server raised, whichever way the answer came.

Over HTTP the header ``Error-Class`` names it. What is raised is one of

- ``ProtocolError``, ``SchedulingError`` and ``RuntimeServingError`` with all their subclasses in the table of
  ``serve_app.status``: the request was refused, given up, or came at a bad moment;
- ``ServerUnreachableError``: nobody answers, or the replica died in the middle;
- ``ServerFaultError``: a fault of the server or of the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from deployments.runtime import errors as runtime
from deployments.scheduling import errors as scheduling
from serve_app.protocol import errors as protocol

_BASES = (protocol.ProtocolError, scheduling.SchedulingError, runtime.RuntimeServingError)
_BY_NAME: dict[str, type[Exception]] = {
    name: kind
    for module in (protocol, scheduling, runtime)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, _BASES)
}


class ClientError(Exception):
    """Base of what only a client can raise."""


class ServerUnreachableError(ClientError):
    """Nobody answers at the address, or the replica died while it had the request: send it again."""


class ServerFaultError(ClientError):
    """A fault of the server or of the model; over HTTP the message has the id under which the server's log tells it."""


_OF_A_PROXY: dict[int, type[Exception]] = {
    404: protocol.UnknownModelError,
    408: runtime.DeadlineExceededError,
    503: ServerUnreachableError,
}
"""What Serve and HAProxy answer by themselves: no such application, ``request_timeout_s`` has passed, nobody is up."""


def error_from_http(status: int, headers: Mapping[str, str], body: bytes) -> Exception:
    """The error that an HTTP answer other than 200 tells.

    Args:
        status: HTTP status.
        headers: Of the answer; looked up by name in lower case.
        body: ``{"error": message}``, or whatever a proxy on the way has made up.
    """
    message = _message(body)
    kind = _BY_NAME.get(headers.get("error-class", ""))
    if kind is not None:
        stated = headers.get("error-args")
        return kind(*(json.loads(stated) if stated is not None else (message,)))
    if status in _OF_A_PROXY:
        return _OF_A_PROXY[status](message)
    if b'"error"' not in body:
        return ServerUnreachableError(
            f"HTTP {status} from a proxy, not from the model: its replica died or is not up yet; send the request again"
        )
    return ServerFaultError(message)


def is_told_as_it_is(error: BaseException) -> bool:
    """Whether the error's class is one that clients get to see."""
    return type(error).__name__ in _BY_NAME


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body[:500].decode(errors="replace")
