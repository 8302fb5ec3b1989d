"""The two ways that this project does not go, as Serve applications of the same model on the same devices.

Serve reads the annotations of a builder as they stand: they are not postponed in this file.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request, Response
from ray import serve
from ray.serve import Application, Deployment
from ray.serve.handle import DeploymentHandle
from starlette.applications import Starlette
from starlette.routing import Route

from deployments.runtime.allocator_actor import device_folder
from deployments.runtime.device_view import DeviceView
from deployments.runtime.model_settings import ModelSettings
from deployments.scheduling.request import Request as InferenceRequest
from deployments.scheduling.request import RequestId
from deployments.scheduling.routing import choose_device
from serve_app.http import ROUTE_OPTIONS, DirectApp, install_errors, read_body
from serve_app.model_application import LOGGING
from serve_app.model_ingress import ModelIngress
from serve_app.protocol import parse_header_length
from serve_app.sections import ModelConfig
from split_tool.plan import SplitPlan

_LENGTH = "inference-header-content-length"
_MAX_BODY_BYTES = 2**28


class Chooser:
    """Where a request waits least, by the pages and the function that the model's own replicas use."""

    def __init__(self, config: ModelConfig) -> None:
        """Look at the devices' pages when the first request comes: by then there are some."""
        self._settings: ModelSettings = config.to_settings()
        plan = SplitPlan.load(Path(self._settings.folder))
        self._isolated_s = plan.isolated_ms / 1e3
        self._block_times_s = tuple(block.time_ms / 1e3 for block in plan.blocks)
        self.devices = device_names(config)
        self._views: list[DeviceView] = []
        self._turn = 0

    def choose(self) -> int:
        """Number of the device; another one each time where several are idle."""
        if not self._views:
            self._views = [DeviceView(device_folder(name)) for name in self.devices]
        self._turn = (self._turn + 1) % len(self._views)
        if self._views[self._turn].is_idle:
            return self._turn
        now_s = time.monotonic()
        request = InferenceRequest(
            request_id=RequestId(uuid4().hex),
            model=self._settings.model,
            owner="",
            arrival_s=now_s,
            isolated_s=self._isolated_s,
            block_times_s=self._block_times_s,
            deadline_s=now_s + self._settings.aim_s(None, self._isolated_s),
            priority=self._settings.priority,
        )
        return choose_device(self._views, request, now_s, first=self._turn)


class BodyReplica(ModelIngress):
    """Takes a request as it came over HTTP, from a Serve handle."""

    async def infer_body(self, body: bytes, header_length: int | None) -> tuple[bytes, dict[str, str]]:
        """Body and headers of the answer."""
        encoded = await self._answer_body(body, header_length)
        return bytes(encoded.body), dict(encoded.headers)


class ThinIngress:
    """Takes HTTP, chooses, and calls the replica on the chosen device by its handle."""

    def __init__(self, config: ModelConfig, *replicas: DeploymentHandle[Any]) -> None:
        """One replica a device, in the order of the model's devices."""
        self._chooser = Chooser(config)
        self._replicas: Sequence[DeploymentHandle[Any]] = replicas

    async def __serve_build_asgi_app__(self) -> FastAPI:
        """The same front as the model's own."""
        app = DirectApp(path="/infer", handler=self._infer, **ROUTE_OPTIONS)
        install_errors(app)
        return app

    async def _infer(self, request: Request) -> Response:
        body = bytes(await read_body(request, _MAX_BODY_BYTES))
        replica = self._replicas[self._chooser.choose()]
        content, headers = await replica.infer_body.remote(body, parse_header_length(request.headers.get(_LENGTH)))
        return Response(content, headers=headers)


class NamedReplica(ModelIngress):
    """Answers HTTP, hands nothing on, and leaves its name for the router of its application."""

    def __init__(self, settings: ModelSettings, config: ModelConfig) -> None:
        """As a replica of a model with several devices: it takes a seat on one of them."""
        super().__init__(settings, config, is_declared=False)
        self._others = None
        name = serve.get_replica_context().replica_id.to_full_id_str()
        _name_file(config, self.settings.device.device).write_text(name)


class IngressRouter:
    """Serve's ingress request router: HAProxy asks it for the replica, and sends the request there."""

    def __init__(self, config: ModelConfig) -> None:
        """Nobody has asked yet."""
        self._config = config
        self._chooser = Chooser(config)
        self._names: dict[str, str] = {}

    async def __serve_build_asgi_app__(self) -> Starlette:
        """The one route that HAProxy knows; the answer names a replica."""
        return Starlette(routes=[Route("/internal/route", self._route, methods=["POST"])])

    async def _route(self, _request: Request) -> Response:
        device = self._chooser.devices[self._chooser.choose()]
        if device not in self._names:
            self._names[device] = _name_file(self._config, device).read_text()
        return Response(json.dumps({"replica_id": self._names[device]}))


def device_names(config: ModelConfig) -> list[str]:
    """Names of the model's devices."""
    return [device.to_settings().device for device in config.all_devices]


def thin(args: ModelConfig) -> Application:
    """The application builder of the thin ingress: ``import_path: benchmarks.routes.apps:thin``."""
    replicas = []
    for device in args.all_devices:
        alone = args.model_copy(update={"device": device, "devices": []})
        replica = _deployment(f"On-{device.to_settings().device}", BodyReplica)
        replicas.append(replica.bind(alone.to_settings(), alone, is_declared=False))
    ingress: Application = _deployment("Thin", serve.ingress()(ThinIngress)).bind(args, *replicas)
    return ingress


def routed(args: ModelConfig) -> Application:
    """The application builder of the ingress request router: ``import_path: benchmarks.routes.apps:routed``."""
    model = _deployment("Named", serve.ingress()(NamedReplica)).options(num_replicas=len(args.all_devices))
    router = _deployment("Router", serve.ingress()(IngressRouter))
    application: Application = model.bind(args.to_settings(), args)
    return application._with_ingress_request_router(router.bind(args))


def _deployment(name: str, replica: Any) -> Deployment:
    deployment: Deployment = serve.deployment(
        name=name, logging_config=LOGGING, max_ongoing_requests=10_000, ray_actor_options={"num_cpus": 0}
    )(replica)
    return deployment


def _name_file(config: ModelConfig, device: str) -> Path:
    return Path(config.repository).parent / f"{device}.replica"
