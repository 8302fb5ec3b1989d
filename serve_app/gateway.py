"""The small application at ``/``: health, the list of models, and a window onto the devices."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import msgspec
import ray
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from deployments.runtime.allocator_actor import allocators
from serve_app.grpc_server import GrpcServer
from serve_app.grpc_service import InferenceService
from serve_app.http import ROUTE_OPTIONS, install_errors, read_body
from serve_app.model_control import check_parameters, parse_object, parse_parameters
from serve_app.model_directory import ModelDirectory, model_states, why_not_served
from serve_app.model_loader import ModelLoader
from serve_app.protocol import encode_json, server_metadata
from serve_app.sections import GatewayConfig
from serve_app.statistics import StatisticsAnswer

VERSION = version("dlir-serve")
_JSON = "application/json"
_ANSWER_LIMIT_S = 5.0
_MAX_BODY_BYTES = 2**20
_BODY: dict[str, Any] = {"requestBody": {"required": False, "content": {_JSON: {"schema": {"type": "object"}}}}}


class Gateway:
    """Answers for the server as a whole; HTTP inference goes straight to the models' own applications.

    gRPC for all models is served here too: one port cannot lead to several applications.
    """

    def __init__(self, config: GatewayConfig) -> None:
        """Nothing listens yet."""
        self._config = config
        self._directory = ModelDirectory()
        self._loader = ModelLoader(config, self._directory)
        self._grpc: GrpcServer | None = None

    async def __del__(self) -> None:
        """End the gRPC server; Serve awaits this when the replica shuts down."""
        if self._grpc is not None:
            await self._grpc.stop()

    async def __serve_build_asgi_app__(self) -> FastAPI:
        """The ASGI application, built by Serve; starts gRPC as well, unless the configuration switches it off.

        Raises:
            PortInUseError: If the port of gRPC cannot be had.
        """
        if self._config.grpc_port is not None:
            self._grpc = await GrpcServer.start(
                InferenceService(self._directory, self._loader, VERSION),
                host=self._config.grpc_host,
                port=self._config.grpc_port,
                max_message_bytes=int(self._config.grpc_max_message_mb * 2**20),
            )
        app = FastAPI(title="dlir-serve", version=VERSION, **ROUTE_OPTIONS)
        install_errors(app)
        page = files("serve_app").joinpath("dashboard.html").read_text()

        @app.get("/", summary="Live page of the devices")
        async def dashboard() -> HTMLResponse:
            return HTMLResponse(page)

        @app.get("/v2", summary="Server metadata")
        async def metadata() -> Response:
            return Response(encode_json(server_metadata(VERSION)), media_type=_JSON)

        @app.get("/v2/health/live", summary="Is the server alive?")
        async def live() -> Response:
            return Response()

        @app.get("/v2/health/ready", summary="Are all models ready?")
        async def ready() -> Response:
            models = await asyncio.to_thread(model_states)
            not_ready = [model for model in models if model.state != "READY"]
            if not_ready:
                return _as_json(
                    {"error": ", ".join(f"{m.name} is {m.state} {m.reason}".strip() for m in not_ready)}, 503
                )
            return Response()

        @app.get("/v2/models", summary="Models and their states")
        async def index(served: bool = False) -> Response:
            return _as_json(await (self._directory.states() if served else self._loader.index()))

        @app.post("/v2/repository/index", summary="The same, as Triton lists it", openapi_extra=_BODY)
        async def repository_index(request: Request) -> Response:
            body = parse_object(await read_body(request, _MAX_BODY_BYTES))
            states = await self._loader.index()
            return _as_json([state for state in states if state.state == "READY" or not body.get("ready")])

        @app.post("/v2/repository/models/{model}/load", summary="Load a model, or its new version", openapi_extra=_BODY)
        async def load(model: str, request: Request) -> Response:
            check_parameters(parse_parameters(await read_body(request, _MAX_BODY_BYTES)))
            await self._loader.load(model)
            return Response()

        @app.post("/v2/repository/models/{model}/unload", summary="Unload a model", openapi_extra=_BODY)
        async def unload(model: str, request: Request) -> Response:
            check_parameters(parse_parameters(await read_body(request, _MAX_BODY_BYTES)))
            await self._loader.unload(model)
            return Response()

        @app.get("/v2/models/stats", summary="Statistics of all models that are ready")
        async def statistics() -> Response:
            return _as_json(StatisticsAnswer(model_stats=tuple(await self._directory.statistics())))

        @app.get("/v2/devices", summary="What each device does right now")
        async def devices() -> Response:
            return _as_json(await asyncio.to_thread(_ask_allocators, "status"))

        @app.get("/v2/devices/{device}/slices", summary="Recorded turns of a device, the last ones")
        async def slices(device: str, since: int = 0) -> Response:
            answers = await asyncio.to_thread(_ask_allocators, "slices_since", since)
            return _as_json([turn for name, turns in answers.items() if f"-{device}-" in name for turn in turns])

        @app.get("/v2/models/{model}", include_in_schema=False)
        @app.get("/v2/models/{model}/{rest:path}", include_in_schema=False)
        @app.post("/v2/models/{model}/{rest:path}", include_in_schema=False)
        async def no_such_model(model: str, rest: str = "") -> Response:
            raise why_not_served(model, await asyncio.to_thread(model_states))

        return app


def _ask_allocators(method: str, *arguments: Any) -> dict[str, Any]:
    asked = {name: getattr(handle, method).remote(*arguments) for name, handle in allocators().items()}
    return {name: ray.get(answer, timeout=_ANSWER_LIMIT_S) for name, answer in asked.items()}


def _as_json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=_JSON)
