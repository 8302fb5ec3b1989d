"""The models of the cluster: their states, and handles to their applications."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import ApplicationStatus, DeploymentStatusOverview

from serve_app.protocol.errors import ModelNotReadyError, ProtocolError, UnknownModelError
from serve_app.served_model import ServedModel
from serve_app.statistics import ModelStatistics

MODEL_DEPLOYMENT = "SplitModel"
UNLOADED = "unloaded"
"""Reason of a model in the repository that nothing is wrong with."""

_HANDLE_AGE_S = 1.0
_ANSWER_LIMIT_S = 5.0


class ModelState(msgspec.Struct, frozen=True, kw_only=True):
    """A model in the index.

    Attributes:
        name: Its name.
        version: The version served; empty where nobody can tell.
        state: In the words of Triton's repository index.
        reason: Why it is not ready, or what else is to be told of it.
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
_BARE = (ApplicationStatus.DEPLOY_FAILED, ApplicationStatus.DELETING)


def model_states() -> list[ModelState]:
    """Every model application of the cluster with its state; blocks.

    A model that is updated is ready while replicas of either version answer; what the update meets is the reason.
    """
    states = []
    for name, application in sorted(serve.status().applications.items()):
        deployment = application.deployments.get(MODEL_DEPLOYMENT)
        is_bare = not application.deployments and application.status in _BARE  # it may be a model's
        if deployment is None and not is_bare:
            continue
        state = _STATES.get(application.status, "UNAVAILABLE")
        all_parts = list(application.deployments.values())
        if deployment is not None and state != "UNLOADING" and all(map(_num_running, all_parts)):
            state = "READY"
        is_settled = application.status == ApplicationStatus.RUNNING
        message = next((part.message for part in all_parts if part.message), application.message)
        reason = "" if is_settled else _without_traceback(message)
        states.append(ModelState(name=name, version="", state=state, reason=reason))
    return states


def _without_traceback(message: str) -> str:
    """What Serve tells, and the error at the end of the traceback in it."""
    head, is_there, traceback = message.partition("Traceback (most recent call last)")
    lines = [line for line in traceback.splitlines() if line[:1].strip()]
    return f"{head.splitlines()[0]} {lines[-1]}" if is_there and head and lines else message


def _num_running(deployment: DeploymentStatusOverview) -> int:
    return sum(count for state, count in deployment.replica_states.items() if state == "RUNNING")


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

    def forget(self, model: str) -> None:
        """The model is being taken away: the next request for it looks it up."""
        self._handles.pop(model, None)

    async def states(self) -> list[ModelState]:
        """Every model application, with the version that its replica tells."""
        states = await asyncio.to_thread(self._find_states)
        ready = [state.name for state in states if state.state == "READY"]
        answers = await asyncio.gather(*map(self._ask, ready), return_exceptions=True)
        told = {name: each for name, each in zip(ready, answers, strict=True) if isinstance(each, ServedModel)}
        return [_with_remark(state, told[state.name]) if state.name in told else state for state in states]

    async def served(self, model: str) -> ServedModel:
        """What a replica of the model says of itself.

        Raises:
            UnknownModelError: If there is no such model.
            ModelNotReadyError: If it is not up, or does not answer within 5 s.
        """
        states = await asyncio.to_thread(self._find_states)
        if all(state.name != model or state.state != "READY" for state in states):
            raise why_not_served(model, states)
        return await self._ask(model)

    async def _ask(self, model: str) -> ServedModel:
        handle = await self.handle(model)
        try:
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                answer: ServedModel = await handle.served.remote()
        except (TimeoutError, RayServeException, RayActorError) as error:
            raise ModelNotReadyError(f"model {model!r} does not answer: ask again") from error
        return answer

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


def _with_remark(state: ModelState, served: ServedModel) -> ModelState:
    reason = "; ".join(filter(None, (state.reason, served.remark)))
    return msgspec.structs.replace(state, version=served.version, reason=reason)
