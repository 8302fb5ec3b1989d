"""Clients over the deployment handles of a Ray cluster, for drivers and for deployments that compose models."""

from __future__ import annotations

import asyncio
from typing import Any, Unpack

import ray
from ray import serve
from ray.serve.exceptions import RayServeException, RequestCancelledError
from ray.serve.handle import DeploymentHandle

from deployments.runtime.errors import DeadlineExceededError
from serve_app.client.errors import ServerFaultError, ServerUnreachableError, is_told_as_it_is
from serve_app.client.options import Arrays, InferOptions, Outputs, wait_limit_s
from serve_app.model_directory import ModelDirectory, model_states, why_not_served
from serve_app.status import INTERNAL, cause_of, status_of


class HandleClient:
    """A client for threads, connected to the cluster that this process belongs to."""

    def __init__(self) -> None:
        """Nothing is looked up yet.

        Raises:
            ServerUnreachableError: If the process is in no cluster.
        """
        _check_connected()
        self._handles: dict[str, DeploymentHandle[Any]] = {}

    def infer(self, model: str, inputs: Arrays, **options: Unpack[InferOptions]) -> Outputs:
        """The outputs of the model by name, read-only; see ``InferOptions`` and ``serve_app.client.errors``."""
        limit_s = wait_limit_s(options)
        response: Any = self._handle(model).infer.remote(inputs, **options)
        try:
            outputs: Outputs = response.result(timeout_s=limit_s)
        except Exception as error:
            raise _told(response, error, limit_s) from error
        except BaseException:  # Ctrl-C
            response.cancel()
            raise
        return outputs

    def _handle(self, model: str) -> DeploymentHandle[Any]:
        if model not in self._handles:
            try:
                self._handles[model] = serve.get_app_handle(model)
            except RayServeException as error:
                raise why_not_served(model, model_states()) from error
        return self._handles[model]


class AsyncHandleClient:
    """The same for one event loop. Cancelling the task that waits takes the request out of the server."""

    def __init__(self) -> None:
        """See ``HandleClient``."""
        _check_connected()
        self._directory = ModelDirectory()

    async def infer(self, model: str, inputs: Arrays, **options: Unpack[InferOptions]) -> Outputs:
        """See ``HandleClient.infer``."""
        limit_s = wait_limit_s(options)
        handle = await self._directory.handle(model)
        response: Any = handle.infer.remote(inputs, **options)
        try:
            async with asyncio.timeout(limit_s):
                outputs: Outputs = await response
        except asyncio.CancelledError:
            response.cancel()
            raise
        except Exception as error:
            raise _told(response, error, limit_s) from error
        return outputs


def _check_connected() -> None:
    if not ray.is_initialized():
        raise ServerUnreachableError("this process is in no Ray cluster: call ray.init(address='auto') first")


def _told(response: Any, error: Exception, limit_s: float | None) -> Exception:
    """The error for the caller of ``infer``: the same class as over HTTP."""
    if isinstance(error, TimeoutError):
        response.cancel()
        return DeadlineExceededError(f"no answer within {limit_s} s: the request was given up")
    cause = cause_of(error)
    status = status_of(cause)
    if isinstance(cause, RequestCancelledError):
        return cause
    if status is INTERNAL:
        return ServerFaultError(str(cause))
    if is_told_as_it_is(cause):
        assert isinstance(cause, Exception)
        return cause
    return ServerUnreachableError(str(cause))
