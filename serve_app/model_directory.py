"""The models of the cluster: their states, and handles to their applications."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

import msgspec
from ray import serve
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import ApplicationStatus

from serve_app.model_ingress import MODEL_VERSION
from serve_app.protocol.errors import UnknownModelError
from serve_app.statistics import ModelStatistics

_HANDLE_AGE_S = 1.0


class ModelState(msgspec.Struct, frozen=True, kw_only=True):
    """A model in the index.

    Attributes:
        name: Its name.
        version: The version served.
        state: In the words of Triton's repository index.
        reason: Why it is not ready; empty if it is.
    """

    name: str
    version: str
    state: Literal["READY", "LOADING", "UNLOADING", "UNAVAILABLE"]
    reason: str


_STATES: dict[str, Literal["READY", "LOADING", "UNLOADING", "UNAVAILABLE"]] = {
    ApplicationStatus.RUNNING: "READY",
    ApplicationStatus.NOT_STARTED: "LOADING",
    ApplicationStatus.DEPLOYING: "LOADING",
    ApplicationStatus.DELETING: "UNLOADING",
}


def model_states() -> list[ModelState]:
    """Every model application of the cluster with its state; blocks."""
    states = []
    for name, application in sorted(serve.status().applications.items()):
        has_failed_early = application.status == ApplicationStatus.DEPLOY_FAILED and not application.deployments
        if "SplitModel" not in application.deployments and not has_failed_early:
            continue
        states.append(
            ModelState(
                name=name,
                version=MODEL_VERSION,
                state=_STATES.get(application.status, "UNAVAILABLE"),
                reason="" if application.status == ApplicationStatus.RUNNING else application.message,
            )
        )
    return states


def unknown_model(model: str, states: list[ModelState]) -> UnknownModelError:
    """The error that names the models there are."""
    names = [state.name for state in states]
    return UnknownModelError(f"there is no model {model[:100]!r}; served here: {', '.join(names) or 'none'}")


class ModelDirectory:
    """Handles to the models' applications, used by one event loop.

    A handle is kept. Once it is older than a second, the request that asks for it still gets it, and whether the model
    is still there is looked up beside: a request waits for the controller only if its model is new.
    """

    def __init__(self) -> None:
        self._handles: dict[str, tuple[DeploymentHandle[Any], float]] = {}
        self._look_ups: dict[str, asyncio.Task[DeploymentHandle[Any]]] = {}

    async def handle(self, model: str) -> DeploymentHandle[Any]:
        """A handle to the model.

        Raises:
            UnknownModelError: If there is no such model.
        """
        known = self._handles.get(model)
        if known is None:
            return await asyncio.shield(self._look_up(model))
        handle, looked_up_s = known
        if time.monotonic() - looked_up_s > _HANDLE_AGE_S:
            self._look_up(model)
        return handle

    async def statistics(self) -> list[ModelStatistics]:
        """Statistics of every model that is ready, by name."""
        states = await asyncio.to_thread(model_states)
        handles = [await self.handle(state.name) for state in states if state.state == "READY"]
        return list(await asyncio.gather(*(_statistics(handle) for handle in handles)))

    def _look_up(self, model: str) -> asyncio.Task[DeploymentHandle[Any]]:
        """The look-up in progress; a new one if there is none."""
        if model not in self._look_ups:
            task = asyncio.create_task(self._find(model))
            self._look_ups[model] = task
            task.add_done_callback(lambda done: self._forget_look_up(model, done))
        return self._look_ups[model]

    def _forget_look_up(self, model: str, done: asyncio.Task[DeploymentHandle[Any]]) -> None:
        del self._look_ups[model]
        if not done.cancelled():
            done.exception()  # whoever waits for it gets it; nobody else need hear of it

    async def _find(self, model: str) -> DeploymentHandle[Any]:
        states = await asyncio.to_thread(model_states)
        if all(state.name != model for state in states):
            self._handles.pop(model, None)
            raise unknown_model(model, states)
        known = self._handles.get(model)
        try:
            handle = known[0] if known is not None else await asyncio.to_thread(serve.get_app_handle, model)
        except RayServeException as error:
            raise unknown_model(model, states) from error
        self._handles[model] = (handle, time.monotonic())
        return handle


async def _statistics(handle: DeploymentHandle[Any]) -> ModelStatistics:
    statistics: ModelStatistics = await handle.statistics.remote()
    return statistics
