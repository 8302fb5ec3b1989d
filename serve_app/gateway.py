"""The small application at ``/``: health, the list of models, and a window onto the devices."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Literal

import msgspec
import ray
from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse
from ray import serve
from ray.serve.schema import ApplicationStatus

from deployments.runtime.allocator_actor import allocators
from serve_app.http import ROUTE_OPTIONS, install_errors
from serve_app.model_ingress import MODEL_VERSION
from serve_app.protocol import encode_json, server_metadata
from serve_app.protocol.errors import UnknownModelError

VERSION = version("dlir-serve")
_JSON = "application/json"
_ANSWER_LIMIT_S = 5.0


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


class Gateway:
    """Answers for the server as a whole; inference goes straight to the models' own applications."""

    def __serve_build_asgi_app__(self) -> FastAPI:
        """The ASGI application, built by Serve."""
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
        @app.post("/v2/repository/index", summary="Models and their states, as Triton lists them")
        async def index() -> Response:
            return _as_json(await asyncio.to_thread(model_states))

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
        async def unknown_model(model: str, rest: str = "") -> Response:
            names = [m.name for m in await asyncio.to_thread(model_states)]
            raise UnknownModelError(f"there is no model {model!r}; served here: {', '.join(names) or 'none'}")

        return app


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


_STATES: dict[str, Literal["READY", "LOADING", "UNLOADING", "UNAVAILABLE"]] = {
    ApplicationStatus.RUNNING: "READY",
    ApplicationStatus.NOT_STARTED: "LOADING",
    ApplicationStatus.DEPLOYING: "LOADING",
    ApplicationStatus.DELETING: "UNLOADING",
}


def _ask_allocators(method: str, *arguments: Any) -> dict[str, Any]:
    asked = {name: getattr(handle, method).remote(*arguments) for name, handle in allocators().items()}
    return {name: ray.get(answer, timeout=_ANSWER_LIMIT_S) for name, answer in asked.items()}


def _as_json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=_JSON)
