"""Clients over HTTP: one connection per request in progress, kept open; a cancelled request closes its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Unpack

import httpx

from deployments.runtime.errors import DeadlineExceededError
from serve_app.client.errors import ServerUnreachableError, error_from_http
from serve_app.client.options import Arrays, InferOptions, Outputs, wait_limit_s
from serve_app.protocol.client_codec import decode_infer_response, encode_infer_request

_CONNECT_LIMIT_S = 5.0
_LENGTH = "inference-header-content-length"
# Fewer than the server's 90 s: a request on a connection that is being closed fails through nobody's fault.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30.0)


class HttpClient:
    """A client for threads; a context manager that closes its connections. Threads may share it."""

    def __init__(self, url: str) -> None:
        """A client of the server at ``url``: ``http://127.0.0.1:8000``. Connects with the first request."""
        self._http = httpx.Client(base_url=url, limits=_LIMITS)

    def infer(self, model: str, inputs: Arrays, **options: Unpack[InferOptions]) -> Outputs:
        """The outputs of the model by name; see ``InferOptions`` and ``serve_app.client.errors``."""
        limit_s = wait_limit_s(options)
        with _transport_errors(limit_s):
            return _outputs(self._http.send(_request(self._http, model, inputs, options, limit_s)))

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncHttpClient:
    """The same for one event loop. Cancelling the task that waits takes the request out of the server."""

    def __init__(self, url: str) -> None:
        """See ``HttpClient``."""
        self._http = httpx.AsyncClient(base_url=url, limits=_LIMITS)

    async def infer(self, model: str, inputs: Arrays, **options: Unpack[InferOptions]) -> Outputs:
        """See ``HttpClient.infer``."""
        limit_s = wait_limit_s(options)
        with _transport_errors(limit_s):
            return _outputs(await self._http.send(_request(self._http, model, inputs, options, limit_s)))

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncHttpClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _request(
    http: httpx.Client | httpx.AsyncClient, model: str, inputs: Arrays, options: InferOptions, limit_s: float | None
) -> httpx.Request:
    encoded = encode_infer_request(
        inputs,
        priority=options.get("priority"),
        timeout_us=_microseconds(options.get("timeout_s")),
        deadline_us=_microseconds(options.get("deadline_s")),
    )
    return http.build_request(
        "POST",
        f"/v2/models/{model}/infer",
        content=encoded.body,
        headers={"Content-Type": "application/octet-stream", _LENGTH: str(encoded.header_length)},
        timeout=httpx.Timeout(limit_s, connect=_CONNECT_LIMIT_S),
    )


def _outputs(response: httpx.Response) -> Outputs:
    if response.status_code != httpx.codes.OK:
        raise error_from_http(response.status_code, response.headers, response.content)
    # without the header the body is JSON alone: a model without outputs
    return decode_infer_response(response.content, int(response.headers.get(_LENGTH, len(response.content))))


@contextmanager
def _transport_errors(limit_s: float | None) -> Iterator[None]:
    """Raise what httpx raises as errors of ours."""
    try:
        yield
    except httpx.ConnectTimeout as error:
        raise ServerUnreachableError(f"no connection within {_CONNECT_LIMIT_S} s: is the server running?") from error
    except httpx.TimeoutException as error:
        raise DeadlineExceededError(f"no answer within {limit_s} s: the request was given up") from error
    except httpx.TransportError as error:
        raise ServerUnreachableError(f"the server does not answer ({error}): is it running?") from error


def _microseconds(time_s: float | None) -> int | None:
    return None if time_s is None else max(1, round(time_s * 1e6))
