"""The models of the cluster: their states, and handles to their applications."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from ray import serve
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import ApplicationStatus

from serve_app.model_ingress import MODEL_VERSION
from serve_app.protocol.errors import ModelNotReadyError, ProtocolError, UnknownModelError
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


def why_not_served(model: str, states: list[ModelState]) -> ProtocolError:
    """The error for a request to a model that has no application that answers."""
    for state in states:
        if state.name == model:
            return ModelNotReadyError(f"model {model!r} is {state.state} {state.reason}".strip())
    names = ", ".join(state.name for state in states)
    return UnknownModelError(f"there is no model {model[:100]!r}; served here: {names or 'none'}")


class ModelDirectory:
    """Handles to the models' applications, used by one event loop.

    A handle is kept. Once it is older than a second, the request that asks for it still gets it, and whether the model
    is still there is looked up beside: a request waits for the controller only if its model is new.
    """

    def __init__(
        self,
        find_states: Callable[[], list[ModelState]] = model_states,
        find_handle: Callable[[str], DeploymentHandle[Any]] = serve.get_app_handle,
        *,
        handle_age_s: float = _HANDLE_AGE_S,
    ) -> None:
        """An empty directory.

        Args:
            find_states: Asks the cluster for all models; may block.
            find_handle: The same for one model's handle.
            handle_age_s: Over this age, in seconds, whether the model is still there is looked up.
        """
        self._find_states = find_states
        self._find_handle = find_handle
        self._handle_age_s = handle_age_s
        self._handles: dict[str, tuple[DeploymentHandle[Any], float]] = {}
        self._look_ups: dict[str, asyncio.Task[DeploymentHandle[Any]]] = {}

    async def handle(self, model: str) -> DeploymentHandle[Any]:
        """A handle to the model.

        Raises:
            UnknownModelError: If there is no such model.
            ModelNotReadyError: If it is not up yet.
        """
        known = self._handles.get(model)
        if known is None:
            return await asyncio.shield(self._look_up(model))
        handle, looked_up_s = known
        if time.monotonic() - looked_up_s > self._handle_age_s:
            self._look_up(model)
        return handle

    async def statistics(self) -> list[ModelStatistics]:
        """Statistics of every model that is ready, by name."""
        states = await asyncio.to_thread(self._find_states)
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
        states = await asyncio.to_thread(self._find_states)
        state = next((state.state for state in states if state.name == model), None)
        known = self._handles.get(model)
        if state is None or (known is None and state != "READY"):
            self._handles.pop(model, None)
            raise why_not_served(model, states)
        try:
            # a model that is updated or mended right now keeps its handle: its replicas come and go behind it
            handle = known[0] if known is not None else await asyncio.to_thread(self._find_handle, model)
        except RayServeException as error:
            raise why_not_served(model, []) from error
        self._handles[model] = (handle, time.monotonic())
        return handle


async def _statistics(handle: DeploymentHandle[Any]) -> ModelStatistics:
    statistics: ModelStatistics = await handle.statistics.remote()
    return statistics
