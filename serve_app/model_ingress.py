"""HTTP of one model, straight from the replica that owns its device thread: Open Inference Protocol v2."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
from fastapi import FastAPI, Request, Response
from ray.serve.handle import DeploymentHandle

from deployments.runtime.group_calls import LaterGroups
from deployments.runtime.model_settings import ModelSettings
from deployments.runtime.split_model import Outputs, SplitModel
from deployments.scheduling.request import Request as InferenceRequest
from serve_app.config import live_config
from serve_app.errors import ConfigError
from serve_app.explaining import plain_explanation
from serve_app.http import ROUTE_OPTIONS, DirectApp, install_errors, read_body, response_in_pieces
from serve_app.infer_codec import InferCodec
from serve_app.placement import Place
from serve_app.protocol import (
    EncodedResponse,
    InferRequest,
    ModelMetadata,
    RequestLimits,
    decompress_body,
    encode_json,
    model_metadata,
    parse_header_length,
)
from serve_app.protocol.errors import UnknownVersionError
from serve_app.protocol.grpc_codec import encode_model_infer
from serve_app.protocol.model_config import ModelConfigAnswer, model_config
from serve_app.sections import ModelConfig
from serve_app.served_model import ServedModel, check_servable, content_sha256, fingerprint
from serve_app.statistics import ModelStatistics, RequestCounter, StatisticsAnswer
from serve_app.status import ErrorReply, cause_of, error_reply
from serve_app.unsplit import Unsplit, find_plan, split_beside, unsplit_model
from split_tool.plan import PLAN_FILE, SplitPlan

logger = logging.getLogger(__name__)

_JSON = "application/json"
_TENSOR = {
    "type": "object",
    "required": ["name", "datatype", "shape"],
    "properties": {
        "name": {"type": "string"},
        "datatype": {"type": "string", "example": "FP32"},
        "shape": {"type": "array", "items": {"type": "integer"}},
        "parameters": {"type": "object"},
        "data": {"type": "array", "items": {}},
    },
}
_INFER_DOCS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            _JSON: {
                "schema": {
                    "type": "object",
                    "required": ["inputs"],
                    "properties": {
                        "id": {"type": "string"},
                        "parameters": {"type": "object"},
                        "inputs": {"type": "array", "items": _TENSOR},
                        "outputs": {"type": "array", "items": {"type": "object", "required": ["name"]}},
                    },
                }
            },
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


class ModelIngress(SplitModel):
    """A ``SplitModel`` that also answers HTTP under ``/v2/models/<model>``, and what the gateway's gRPC hands on."""

    def __init__(
        self, settings: ModelSettings, config: ModelConfig, *later: DeploymentHandle[Any], is_declared: bool
    ) -> None:
        """See ``SplitModel``; ``config`` is what ``settings`` were made from, and bounds the size of requests.

        Args:
            settings: The model.
            config: The same, as it was stated.
            later: The deployments of its groups of blocks but the first; none in the fused layout.
            is_declared: It was stated in the server's configuration file.

        Raises:
            UnsupportedFeatureError: If the model takes or gives what the protocol cannot carry.
        """
        self._config = config
        self._is_declared = is_declared
        folder = Path(settings.folder)
        content = content_sha256(folder)
        self._fingerprint = fingerprint(settings, config, content)
        place = Place(config, self._fingerprint)
        self._others = place.neighbours
        settings = msgspec.structs.replace(settings, device=place.device)
        unsplit = None if (folder / PLAN_FILE).is_file() else unsplit_model(settings, config, content)
        if unsplit is not None:
            settings = msgspec.structs.replace(settings, folder=str(find_plan(unsplit)))
        check_servable(SplitPlan.load(Path(settings.folder)))
        super().__init__(settings, later=LaterGroups(settings.model, later) if later else None)
        self._stated_settings = settings
        self._has_been_configured = False
        self._refusal = ""
        self._limits = RequestLimits(
            max_body_bytes=int(config.http.max_body_mb * 2**20), max_json_bytes=int(config.http.max_json_mb * 2**20)
        )
        self._codec = InferCodec(
            self.plan.inputs,
            self.plan.outputs,
            self._limits,
            device_cores={core for each in config.all_devices for core in each.cores or ()},
        )
        self._counter = RequestCounter()
        self._warm_up_s, self._warm_up_copies = self.device_s, self.copies
        self._splitting = "" if unsplit is None else "served whole, to be split"
        if unsplit is not None:
            threading.Thread(target=self._split_beside, args=(unsplit,), name="split", daemon=True).start()

    async def __serve_build_asgi_app__(self) -> FastAPI:
        """The ASGI application, built by Serve once the model is loaded; from then on the neighbours know of it."""
        if self._others is not None:
            await self.meet(self._others, {"statistics_here": self._statistics_here})
        name = self.settings.model
        app = DirectApp(path="/infer", handler=self._infer_http, title=f"dlir-serve: {name}", **ROUTE_OPTIONS)
        install_errors(app)

        # the first: Serve matches each request with all routes up to its own
        @app.post("/infer", summary="Run the model", openapi_extra=_INFER_DOCS)
        @app.post("/versions/{version}/infer", summary="Run the version", openapi_extra=_INFER_DOCS)
        async def infer(request: Request, version: str = "") -> Response:
            self._check_version(version)
            return await self._infer_http(request)

        @app.get("/", summary="Model metadata")
        @app.get("/versions/{version}", summary="Model metadata of a version")
        async def metadata(version: str = "") -> Response:
            return Response(encode_json(await self.metadata(version)), media_type=_JSON)

        @app.get("/config", summary="Model configuration")
        @app.get("/versions/{version}/config", summary="Model configuration of a version")
        async def config(version: str = "") -> Response:
            return Response(encode_json(await self.config(version)), media_type=_JSON)

        @app.get("/stats", summary="Statistics")
        @app.get("/versions/{version}/stats", summary="Statistics of a version")
        async def statistics(version: str = "") -> Response:
            answer = StatisticsAnswer(model_stats=(await self.statistics(version),))
            return Response(encode_json(answer), media_type=_JSON)

        @app.get("/ready", summary="Is the model ready?")
        @app.get("/versions/{version}/ready", summary="Is the version ready?")
        async def ready(version: str = "") -> Response:
            self._check_version(version)
            return Response()

        return app

    def reconfigure(self, user_config: dict[str, Any] | None, rank: Any) -> None:
        """Called by Serve with ``user_config``, at the start and when it changes; a wrong change is not adopted.

        Args:
            user_config: See ``LiveConfig``; None: nothing is said, or nothing any longer.
            rank: Not looked at. That it is there makes Serve call where there is no ``user_config``, too.

        Raises:
            ConfigError: If it is wrong at the start.
        """
        try:
            live = live_config(user_config, self._stated_settings.device)
        except ConfigError as error:
            if not self._has_been_configured:
                raise
            logger.error("%s", error)
            self._refusal = str(error)
            return
        self._has_been_configured, self._refusal = True, ""
        self.apply(live.over(self._stated_settings), live.device_over(self._stated_settings.device))

    async def infer_grpc(self, message: bytes, version: str = "") -> bytes | ErrorReply:
        """The serialised ``ModelInferResponse`` to a serialised ``ModelInferRequest``, or the error for the client.

        Args:
            message: The request; its model and version are not looked at.
            version: The version that it asks for; empty: whichever is served.
        """
        try:
            self._check_version(version)
            wanted = await self._codec.decode_grpc(message)
            outputs, parameters = await self._infer_wanted(wanted)
            return encode_model_infer(
                self.settings.model,
                self.settings.version,
                wanted.request_id,
                outputs,
                wanted.requested_outputs,
                parameters,
            )
        except Exception as error:
            fault_id = uuid4().hex[:12]
            reply = error_reply(error, fault_id=fault_id)
            if reply.is_fault:
                logger.error("internal error %s", fault_id, exc_info=error)
            return reply

    async def metadata(self, version: str = "") -> ModelMetadata:
        """What the model takes and gives."""
        self._check_version(version)
        return model_metadata(self.plan, name=self.settings.model, versions=(self.settings.version,))

    async def config(self, version: str = "") -> ModelConfigAnswer:
        """How the model is served."""
        self._check_version(version)
        devices = ", ".join(each.to_settings().device for each in self._config.all_devices)
        served = {"device": devices, "mode": self.in_force.mode}
        return model_config(self.plan, name=self.settings.model, served=served)

    async def statistics(self, version: str = "") -> ModelStatistics:
        """Counters of this replica, and of its neighbours where the model has several devices."""
        self._check_version(version)
        here = await self._statistics_here()
        return here if self._others is None else here.plus(await self._others.ask_all("statistics_here"))

    async def _statistics_here(self) -> ModelStatistics:
        return self._counter.statistics(
            self.settings.model,
            self.settings.version,
            device_s=self.device_s - self._warm_up_s,
            copies=self.copies - self._warm_up_copies,
        )

    async def served(self) -> ServedModel:
        """What this replica serves."""
        return ServedModel(
            version=self.settings.version,
            fingerprint=self._fingerprint,
            config=self._config,
            is_declared=self._is_declared,
            remark=self._remark(),
        )

    def _split_beside(self, unsplit: Unsplit) -> None:
        """Have the model split while it is served whole, and go on with the blocks."""

        def tell(progress: str) -> None:
            self._splitting = f"served whole, being split: {progress}"

        try:
            self.serve_plan(split_beside(unsplit, tell))
            self._splitting = ""
        except Exception as error:
            logger.exception("model %r is not split", self.settings.model)
            self._splitting = f"served whole, cannot be split: {cause_of(error)}"

    def _remark(self) -> str:
        if self._refusal:
            return f"serves on with its old settings: {self._refusal}"
        if self._claim is not None and self._claim != self.in_force:
            return "the device keeps its settings until all user_config of its models agree, see /v2/devices"
        return self._splitting

    async def _infer_http(self, request: Request) -> Response:
        headers = request.headers
        body = decompress_body(
            await read_body(request, self._limits.max_body_bytes), headers.get("content-encoding"), self._limits
        )
        encoded = await self._answer_body(body, parse_header_length(headers.get("inference-header-content-length")))
        return response_in_pieces(encoded.body, encoded.headers)

    async def _answer_body(self, body: bytes | bytearray, header_length: int | None) -> EncodedResponse:
        """The answer to a request as it came over HTTP."""
        wanted = await self._codec.decode(body, header_length)
        outputs, parameters = await self._infer_wanted(wanted)
        return await self._codec.encode(
            self.settings.model,
            self.settings.version,
            wanted.request_id,
            outputs,
            wanted.requested_outputs,
            parameters,
        )

    async def _run(self, *arguments: Any, **options: Any) -> tuple[Outputs, InferenceRequest]:
        """See ``SplitModel``; every request counts in the statistics."""
        with self._counter.counting():
            return await super()._run(*arguments, **options)

    async def _infer_wanted(self, wanted: InferRequest) -> tuple[Outputs, dict[str, Any] | None]:
        """The outputs, and what the answer's parameters shall say."""
        timeout_s = None if wanted.timeout_us is None else wanted.timeout_us / 1e6
        deadline_s = None if wanted.deadline_us is None else wanted.deadline_us / 1e6
        if not wanted.explain:
            inference = self.infer(wanted.tensors, priority=wanted.priority, timeout_s=timeout_s, deadline_s=deadline_s)
            return await inference, None
        outputs, explanation = await self.infer_explained(
            wanted.tensors, priority=wanted.priority, timeout_s=timeout_s, deadline_s=deadline_s
        )
        return outputs, {"explanation": None if explanation is None else plain_explanation(explanation)}

    def _check_version(self, version: str) -> None:
        if version not in ("", self.settings.version):
            raise UnknownVersionError(
                f"model {self.settings.model!r} has no version {version[:100]!r}; it is served in version "
                f"{self.settings.version}"
            )
