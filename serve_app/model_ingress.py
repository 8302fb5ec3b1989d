"""HTTP of one model, straight from the replica that owns its device thread: Open Inference Protocol v2."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response

from deployments.runtime.split_model import ModelSettings, SplitModel
from serve_app.config import HttpConfig
from serve_app.http import ROUTE_OPTIONS, install_errors, read_body
from serve_app.protocol import (
    RequestLimits,
    decode_infer_request,
    decompress_body,
    encode_infer_response,
    encode_json,
    model_metadata,
    parse_header_length,
)
from serve_app.protocol.errors import UnknownVersionError

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
    """A ``SplitModel`` that also answers HTTP under ``/v2/models/<model>``."""

    def __init__(self, settings: ModelSettings, http: HttpConfig) -> None:
        """See ``SplitModel``; ``http`` bounds the size of requests."""
        super().__init__(settings)
        self._limits = RequestLimits(
            max_body_bytes=int(http.max_body_mb * 2**20), max_json_bytes=int(http.max_json_mb * 2**20)
        )

    def __serve_build_asgi_app__(self) -> FastAPI:
        """The ASGI application, built by Serve once the model is loaded."""
        name = self.settings.model
        app = FastAPI(title=f"dlir-serve: {name}", **ROUTE_OPTIONS)
        install_errors(app)

        @app.get("/", summary="Model metadata")
        @app.get("/versions/{version}", summary="Model metadata of a version")
        async def metadata(version: str = MODEL_VERSION) -> Response:
            self._check_version(version)
            answer = model_metadata(self.plan, name=name, versions=(MODEL_VERSION,))
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

    async def _infer_http(self, request: Request) -> Response:
        headers = request.headers
        body = decompress_body(
            await read_body(request, self._limits.max_body_bytes), headers.get("content-encoding"), self._limits
        )
        length = parse_header_length(headers.get("inference-header-content-length"))
        wanted = decode_infer_request(body, length, self.plan.inputs, self.plan.outputs, self._limits)
        outputs = await self.infer(
            wanted.tensors,
            priority=wanted.priority,
            timeout_s=None if wanted.timeout_us is None else wanted.timeout_us / 1e6,
        )
        encoded = encode_infer_response(
            self.settings.model, MODEL_VERSION, wanted.request_id, outputs, wanted.requested_outputs
        )
        response = Response(encoded.body, media_type=encoded.content_type)
        if encoded.header_length is not None:
            response.headers["inference-header-content-length"] = str(encoded.header_length)
        return response

    def _check_version(self, version: str) -> None:
        if version != MODEL_VERSION:
            raise UnknownVersionError(
                f"model {self.settings.model!r} has no version {version!r}; it is served in version {MODEL_VERSION}"
            )
