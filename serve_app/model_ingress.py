"""HTTP of one model, straight from the replica that owns its device thread: Open Inference Protocol v2."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from fastapi import FastAPI, Request, Response

from deployments.runtime.split_model import ModelSettings, Outputs, SplitModel
from serve_app.config import HttpConfig
from serve_app.http import ROUTE_OPTIONS, install_errors, read_body
from serve_app.protocol import (
    InferRequest,
    ModelMetadata,
    RequestLimits,
    decode_infer_request,
    decompress_body,
    encode_infer_response,
    encode_json,
    model_metadata,
    parse_header_length,
)
from serve_app.protocol.check import check_carried
from serve_app.protocol.errors import UnknownVersionError, UnsupportedFeatureError
from serve_app.protocol.grpc_codec import decode_model_infer, encode_model_infer
from serve_app.protocol.model_config import ModelConfigAnswer, model_config
from serve_app.statistics import ModelStatistics, RequestCounter, StatisticsAnswer
from serve_app.status import ErrorReply, error_reply
from split_tool.plan import SplitPlan

logger = logging.getLogger(__name__)

MODEL_VERSION = "1"
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

    def __init__(self, settings: ModelSettings, http: HttpConfig) -> None:
        """See ``SplitModel``; ``http`` bounds the size of requests.

        Raises:
            UnsupportedFeatureError: If the model takes or gives what the protocol cannot carry.
        """
        check_servable(SplitPlan.load(Path(settings.folder)))
        super().__init__(settings)
        self._limits = RequestLimits(
            max_body_bytes=int(http.max_body_mb * 2**20), max_json_bytes=int(http.max_json_mb * 2**20)
        )
        self._counter = RequestCounter()
        self._warm_up_s = self.device_s

    def __serve_build_asgi_app__(self) -> FastAPI:
        """The ASGI application, built by Serve once the model is loaded."""
        name = self.settings.model
        app = FastAPI(title=f"dlir-serve: {name}", **ROUTE_OPTIONS)
        install_errors(app)

        @app.get("/", summary="Model metadata")
        @app.get("/versions/{version}", summary="Model metadata of a version")
        async def metadata(version: str = MODEL_VERSION) -> Response:
            self._check_version(version)
            return Response(encode_json(await self.metadata()), media_type=_JSON)

        @app.get("/config", summary="Model configuration")
        @app.get("/versions/{version}/config", summary="Model configuration of a version")
        async def config(version: str = MODEL_VERSION) -> Response:
            self._check_version(version)
            return Response(encode_json(await self.config()), media_type=_JSON)

        @app.get("/stats", summary="Statistics")
        @app.get("/versions/{version}/stats", summary="Statistics of a version")
        async def statistics(version: str = MODEL_VERSION) -> Response:
            self._check_version(version)
            answer = StatisticsAnswer(model_stats=(await self.statistics(),))
            return Response(encode_json(answer), media_type=_JSON)

        @app.get("/ready", summary="Is the model ready?")
        @app.get("/versions/{version}/ready", summary="Is the version ready?")
        async def ready(version: str = MODEL_VERSION) -> Response:
            self._check_version(version)
            return Response()

        @app.post("/infer", summary="Run the model", openapi_extra=_INFER_DOCS)
        @app.post("/versions/{version}/infer", summary="Run the version", openapi_extra=_INFER_DOCS)
        async def infer(request: Request, version: str = MODEL_VERSION) -> Response:
            self._check_version(version)
            return await self._infer_http(request)

        return app

    async def infer(
        self,
        inputs: Mapping[str, np.ndarray],
        *,
        priority: int | None = None,
        timeout_s: float | None = None,
        deadline_s: float | None = None,
    ) -> Outputs:
        """See ``SplitModel.infer``; the request counts in the statistics."""
        with self._counter.counting():
            return await super().infer(inputs, priority=priority, timeout_s=timeout_s, deadline_s=deadline_s)

    async def infer_grpc(self, message: bytes) -> bytes | ErrorReply:
        """The serialised ``ModelInferResponse`` to a serialised ``ModelInferRequest``, or the error for the client."""
        try:
            wanted = decode_model_infer(message, self.plan.inputs, self.plan.outputs, self._limits)
            outputs = await self._infer_wanted(wanted)
            return encode_model_infer(
                self.settings.model, MODEL_VERSION, wanted.request_id, outputs, wanted.requested_outputs
            )
        except Exception as error:
            fault_id = uuid4().hex[:12]
            reply = error_reply(error, fault_id=fault_id)
            if reply.is_fault:
                logger.error("internal error %s", fault_id, exc_info=error)
            return reply

    async def metadata(self) -> ModelMetadata:
        """What the model takes and gives."""
        return model_metadata(self.plan, name=self.settings.model, versions=(MODEL_VERSION,))

    async def config(self) -> ModelConfigAnswer:
        """How the model is served."""
        served = {"device": self.settings.device.device, "mode": self.settings.device.mode}
        return model_config(self.plan, name=self.settings.model, served=served)

    async def statistics(self) -> ModelStatistics:
        """Counters of this replica."""
        return self._counter.statistics(self.settings.model, MODEL_VERSION, device_s=self.device_s - self._warm_up_s)

    async def _infer_http(self, request: Request) -> Response:
        headers = request.headers
        body = decompress_body(
            await read_body(request, self._limits.max_body_bytes), headers.get("content-encoding"), self._limits
        )
        length = parse_header_length(headers.get("inference-header-content-length"))
        wanted = decode_infer_request(body, length, self.plan.inputs, self.plan.outputs, self._limits)
        outputs = await self._infer_wanted(wanted)
        encoded = encode_infer_response(
            self.settings.model, MODEL_VERSION, wanted.request_id, outputs, wanted.requested_outputs
        )
        response = Response(encoded.body, media_type=encoded.content_type)
        if encoded.header_length is not None:
            response.headers["inference-header-content-length"] = str(encoded.header_length)
        return response

    async def _infer_wanted(self, wanted: InferRequest) -> Outputs:
        timeout_s = None if wanted.timeout_us is None else wanted.timeout_us / 1e6
        return await self.infer(wanted.tensors, priority=wanted.priority, timeout_s=timeout_s)

    def _check_version(self, version: str) -> None:
        if version != MODEL_VERSION:
            raise UnknownVersionError(
                f"model {self.settings.model!r} has no version {version!r}; it is served in version {MODEL_VERSION}"
            )


def check_servable(plan: SplitPlan) -> None:
    """Pass if the protocol can carry everything that the model takes and gives.

    Raises:
        UnsupportedFeatureError: It names the input or output, and its type.
    """
    for spec in plan.inputs:
        check_carried("input", spec)
    for spec in plan.outputs:
        check_carried("output", spec)
        if spec.kind == "optional":
            raise UnsupportedFeatureError(
                f"output '{spec.name}' of the model is optional; the protocol has no way to say that it is absent"
            )
