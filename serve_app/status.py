"""Which HTTP status and gRPC code each error has: one table for the whole service.

An error is looked up by its class and then its base classes, nearest first. What is not in the table is a fault of
ours: 500, with an id that the caller of ``error_reply`` puts into the log beside the traceback.
"""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass

import orjson
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RequestCancelledError

from deployments.runtime import errors as runtime
from deployments.scheduling import errors as scheduling
from serve_app import errors as server
from serve_app.protocol import errors as protocol
from split_tool.errors import SplitToolError


@dataclass(frozen=True, slots=True)
class Status:
    """How an error is told to a client.

    Attributes:
        http: HTTP status.
        grpc: Name of the ``grpc.StatusCode``.
        retry_after_s: Whole seconds for the HTTP header ``Retry-After``; None where trying again does not help.
    """

    http: int
    grpc: str
    retry_after_s: int | None = None


BAD_REQUEST = Status(400, "INVALID_ARGUMENT")
NOT_ALLOWED = Status(403, "PERMISSION_DENIED")
NOT_FOUND = Status(404, "NOT_FOUND")
TOO_LARGE = Status(413, "RESOURCE_EXHAUSTED")
UNSUPPORTED_MEDIA_TYPE = Status(415, "UNIMPLEMENTED")
CLIENT_GONE = Status(499, "CANCELLED")
INTERNAL = Status(500, "INTERNAL")
FULL = Status(503, "RESOURCE_EXHAUSTED", retry_after_s=1)
UNAVAILABLE = Status(503, "UNAVAILABLE", retry_after_s=1)
TOO_LATE = Status(504, "DEADLINE_EXCEEDED")

STATUS_OF: dict[type[BaseException], Status] = {
    asyncio.CancelledError: CLIENT_GONE,
    protocol.ProtocolError: BAD_REQUEST,
    protocol.BodyTooLargeError: TOO_LARGE,
    protocol.JsonTooLargeError: TOO_LARGE,
    protocol.TypedContentsTooLargeError: TOO_LARGE,
    protocol.ContentEncodingError: UNSUPPORTED_MEDIA_TYPE,
    protocol.UnknownModelError: NOT_FOUND,
    protocol.UnknownVersionError: NOT_FOUND,
    protocol.ModelNotReadyError: UNAVAILABLE,
    protocol.CodecProcessDiedError: UNAVAILABLE,
    server.ConfigError: BAD_REQUEST,
    server.LoadFailedError: BAD_REQUEST,
    server.ModelControlOffError: NOT_ALLOWED,
    server.ModelMissingError: NOT_FOUND,
    server.RepositoryMissingError: NOT_FOUND,
    server.RepositoryPathError: BAD_REQUEST,
    SplitToolError: BAD_REQUEST,
    scheduling.QueueFullError: FULL,
    scheduling.ModelQueueFullError: FULL,
    scheduling.RefusedError: FULL,
    scheduling.WaitTimeoutError: TOO_LATE,
    scheduling.InvalidRequestError: BAD_REQUEST,
    runtime.DeadlineExceededError: TOO_LATE,
    runtime.InputRefusedError: BAD_REQUEST,
    runtime.AllocatorUnreachableError: UNAVAILABLE,
    runtime.DeviceUnavailableError: UNAVAILABLE,
    runtime.LayoutRefusedError: BAD_REQUEST,
    runtime.LeaseOverdueError: UNAVAILABLE,
    runtime.MemoryBudgetError: UNAVAILABLE,
    runtime.NodesElsewhereError: UNAVAILABLE,
    runtime.NeighbourGoneError: UNAVAILABLE,
    runtime.ReplicaClosedError: UNAVAILABLE,
    runtime.DataRefusedError: BAD_REQUEST,
    BackPressureError: FULL,
    DeploymentUnavailableError: UNAVAILABLE,
    RequestCancelledError: CLIENT_GONE,
    RayActorError: UNAVAILABLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReply:
    """The HTTP answer to a request that failed; gRPC takes ``grpc`` and ``message``.

    Attributes:
        http: HTTP status.
        grpc: Name of the ``grpc.StatusCode``.
        message: For the client.
        headers: HTTP headers. ``Error-Class``, with ``Error-Args`` (JSON) where it takes more than the message to build
            one, lets a Python client raise the same error; a fault has neither.
        body: ``{"error": message}`` as JSON.
        is_fault: The error is not in the table: log it, with the id given to ``error_reply``.
    """

    http: int
    grpc: str
    message: str
    headers: dict[str, str]
    body: bytes
    is_fault: bool


def status_of(error: BaseException) -> Status:
    """The status of an error; ``INTERNAL`` for what the table does not have."""
    for error_class in type(error).__mro__:
        if error_class in STATUS_OF:
            return STATUS_OF[error_class]
    return INTERNAL


def error_reply(error: BaseException, *, fault_id: str) -> ErrorReply:
    """The answer that tells a client about ``error``.

    Args:
        error: What was raised; an error that Ray has wrapped on its way from another process counts as its cause.
        fault_id: Told to the client instead of the message if the error is not in the table.
    """
    error = cause_of(error)
    status = status_of(error)
    is_fault = status is INTERNAL
    message = f"internal error {fault_id}: the server's log has the details under this id" if is_fault else str(error)
    headers = {"Content-Type": "application/json"}
    if not is_fault:
        headers["Error-Class"] = type(error).__name__
        if isinstance(error, scheduling.SchedulingError):  # built from more than its message
            headers["Error-Args"] = json.dumps(error.args)
    if status.retry_after_s is not None:
        headers["Retry-After"] = str(_retry_after_s(error, status.retry_after_s))
    return ErrorReply(
        http=status.http,
        grpc=status.grpc,
        message=message,
        headers=headers,
        body=orjson.dumps({"error": message.encode(errors="replace").decode()}),
        is_fault=is_fault,
    )


def cause_of(error: BaseException) -> BaseException:
    """What was raised originally: Ray hands it over as ``cause`` of an error whose text is a traceback."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error


def _retry_after_s(error: BaseException, default_s: int) -> int:
    """When a refused request could have been on time: the wait beyond what its deadline allowed, rounded up."""
    if isinstance(error, scheduling.RefusedError):
        return max(1, math.ceil(error.predicted_wait_s - max(0.0, error.allowed_wait_s)))
    return default_s
