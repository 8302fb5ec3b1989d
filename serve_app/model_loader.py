"""Loads models from the repository into the running cluster, and unloads them.

A model is an application of its own, as one of the configuration file is; what Serve says of the applications is all
the state there is. A new version starts beside the old one, and takes over when it answers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec
from ray import serve
from ray.exceptions import RayError
from ray.serve.schema import ApplicationStatus

from deployments.runtime.errors import LayoutRefusedError
from serve_app.config import MODEL_ROUTE, stored_config
from serve_app.errors import LoadFailedError, ModelControlOffError, ServeAppError
from serve_app.model_application import model_application
from serve_app.model_directory import MODEL_DEPLOYMENT, UNLOADED, ModelDirectory, ModelState
from serve_app.protocol.errors import ProtocolError, UnknownModelError
from serve_app.repository import check_plan_paths, find_model, model_names
from serve_app.sections import GatewayConfig, ModelConfig
from serve_app.served_model import ServedModel, check_servable, content_sha256, fingerprint
from split_tool.errors import SplitToolError
from split_tool.plan import SplitPlan

logger = logging.getLogger(__name__)

_UNLOAD_LIMIT_S = 60.0
_POLL_S = 0.1
_REFUSALS = (ServeAppError, SplitToolError, ProtocolError, LayoutRefusedError)


class ModelLoader:
    """Used by one gateway replica, on its event loop."""

    def __init__(self, config: GatewayConfig, directory: ModelDirectory) -> None:
        """Nothing is loaded yet.

        Args:
            config: Names the repository, and has the settings of models that have none of their own.
            directory: The models that are served.
        """
        self._config = config
        self._directory = directory
        self._stated: dict[str, ModelConfig] = {}  # of models of the configuration file that somebody unloaded
        self._failures: dict[str, str] = {}  # why the last attempt to load a model failed
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def load(self, model: str) -> None:
        """Return once the model answers as the repository has it now; at once if it does so already.

        Raises:
            ModelControlOffError: If the gateway has no repository.
            ServeAppError: If the repository has no such model, or one that cannot be (see ``serve_app.repository``).
            LoadFailedError: If it does not come up. A version that was served before goes on.
        """
        self._repository()
        async with self._locks.setdefault(model, asyncio.Lock()):
            try:
                await self._load(model)
            except _REFUSALS as error:
                if model in await asyncio.to_thread(self._stored_names):
                    self._failures[model] = str(error)
                raise
            self._failures.pop(model, None)

    async def _load(self, model: str) -> None:
        served = await self._served(model)
        stated = self._stated_config(model, served)
        config = await asyncio.to_thread(self._configuration, model, stated)
        settings = await asyncio.to_thread(config.to_settings)
        if served is not None:
            content = await asyncio.to_thread(content_sha256, Path(settings.folder))
            if served.fingerprint == fingerprint(settings, config, content):
                return
        await asyncio.to_thread(_check_files, config)
        await self._wait_for_name(model)
        logger.info("loading version %s of model %r", settings.version, model)
        try:
            await asyncio.to_thread(_deploy, config, is_declared=stated is not None)
        except (RuntimeError, RayError) as error:
            reasons = [state.reason for state in await self._directory.states() if state.name == model]
            raise LoadFailedError(f"model {model!r} did not come up: {' '.join(reasons) or error}") from error
        self._stated.pop(model, None)

    async def unload(self, model: str) -> None:
        """Begin to take the model away; what it has accepted is still answered.

        Raises:
            ModelControlOffError: If the gateway has no repository.
            UnknownModelError: If no such model is loaded, nor in the repository.
        """
        self._repository()
        async with self._locks.setdefault(model, asyncio.Lock()):
            states = {state.name: state for state in await self._directory.states()}
            if model not in states:
                if model not in {*await asyncio.to_thread(self._stored_names), *self._stated}:
                    raise UnknownModelError(f"there is no model {model[:100]!r} to unload")
                return
            if (config := self._stated_config(model, await self._served(model))) is not None:
                self._stated[model] = config
            await asyncio.to_thread(serve.delete, model, _blocking=False)
            self._directory.forget(model)

    async def index(self) -> list[ModelState]:
        """Every model: those that are served, and those that are only in the repository, with what is wrong there."""
        states = await self._directory.states()
        if self._config.repository is None:
            return states
        states = [self._with_failure(state) for state in states]
        unloaded = await asyncio.to_thread(self._unloaded, {state.name for state in states})
        return sorted([*states, *unloaded], key=lambda state: state.name)

    def _with_failure(self, state: ModelState) -> ModelState:
        failure = self._failures.get(state.name, "")
        if not failure or failure in state.reason:
            return state
        return msgspec.structs.replace(state, reason=f"{state.reason} last load failed: {failure}".strip())

    def _unloaded(self, loaded: set[str]) -> list[ModelState]:
        states = []
        for model in sorted({*self._stored_names(), *self._stated} - loaded):
            version, reason = "", self._failures.get(model, UNLOADED)
            try:
                config = self._configuration(model, self._stated.get(model))
                version = str(config.stored().version)
            except _REFUSALS as error:
                reason = str(error)
            states.append(ModelState(name=model, version=version, state="UNAVAILABLE", reason=reason))
        return states

    def _configuration(self, model: str, stated: ModelConfig | None) -> ModelConfig:
        """The model's configuration, checked as far as that goes without loading it.

        Raises:
            ServeAppError, SplitToolError, ProtocolError, LayoutRefusedError: If it cannot be served.
        """
        config = stated
        if config is None:
            repository = self._repository()
            config = stored_config(find_model(repository, model), self._config.models, str(repository))
        stored = config.stored()
        if stored.is_split:
            plan = SplitPlan.load(stored.folder)
            check_plan_paths(stored.folder, (*(b.file for b in plan.blocks), *(f.path for f in plan.external_files)))
            check_servable(plan)
        config.to_settings()
        return config

    async def _wait_for_name(self, model: str) -> None:
        """Return once the application's name is free, or a model's that is served.

        Raises:
            LoadFailedError: If another application has it, or a model that was unloaded does not go.
        """
        end_s = time.monotonic() + _UNLOAD_LIMIT_S
        while True:
            applications = await asyncio.to_thread(lambda: serve.status().applications)
            found = applications.get(model)
            if found is not None and found.deployments and MODEL_DEPLOYMENT not in found.deployments:
                raise LoadFailedError(f"{model!r} is the name of another application: rename the model")
            if found is None or found.status != ApplicationStatus.DELETING:
                return
            if time.monotonic() > end_s:
                raise LoadFailedError(f"model {model!r} is being unloaded, for over {_UNLOAD_LIMIT_S:g} s now")
            await asyncio.sleep(_POLL_S)

    async def _served(self, model: str) -> ServedModel | None:
        """What a replica of the model says of itself; None if none answers."""
        try:
            return await self._directory.served(model)
        except ProtocolError:
            return None

    def _stated_config(self, model: str, served: ServedModel | None) -> ModelConfig | None:
        """The configuration of a model that is served, or was, by an entry of the configuration file."""
        if served is None:
            return self._stated.get(model)
        return served.config if served.is_declared else None

    def _stored_names(self) -> list[str]:
        return model_names(self._repository())

    def _repository(self) -> Path:
        if self._config.repository is None:
            raise ModelControlOffError(
                "this server does not load or unload models on request: set repository in the gateway's args, or put "
                "the model into the configuration file"
            )
        return Path(self._config.repository).absolute()


def _check_files(config: ModelConfig) -> None:
    """Read all files of a split plan once: a broken one need not start to be found out."""
    stored = config.stored()
    if stored.is_split:
        SplitPlan.load(stored.folder).check_files(stored.folder)


def _deploy(config: ModelConfig, *, is_declared: bool) -> None:
    """Run the model's application and return once it and the way to it are there."""
    application = model_application(config, is_declared=is_declared)
    serve.run(application, name=config.model, route_prefix=MODEL_ROUTE + config.model)
