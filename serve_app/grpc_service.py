"""``inference.GRPCInferenceService``: the Open Inference Protocol v2 over gRPC, for all models of the cluster.

Inference takes one hop: the message goes to the model's replica as it came, is decoded beside the model's plan, and
the serialised answer comes back. Everything else is small.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import uuid4

import grpc
import msgspec
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError
from ray.serve.handle import DeploymentHandle

from serve_app.model_control import check_parameters
from serve_app.model_directory import ModelDirectory, model_states
from serve_app.model_loader import ModelLoader
from serve_app.protocol import inference_pb2 as pb
from serve_app.protocol import server_metadata
from serve_app.protocol.errors import MalformedRequestError, ProtocolError
from serve_app.protocol.grpc_codec import decode_address
from serve_app.status import ErrorReply, error_reply

logger = logging.getLogger(__name__)

SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name

_BY_VALUE_BYTES = 1 << 20
"""Up to this size a message goes by value, over it through the object store: faster at 600 KB, slower at 3.2 MB."""

Answer = TypeVar("Answer")


class InferenceService:
    """The methods of the service; each takes a message and gives one, or raises what ``serve_app.status`` maps."""

    def __init__(self, directory: ModelDirectory, loader: ModelLoader, version: str) -> None:
        """A service of the models in ``directory``, which ``loader`` changes; ``version`` is the server's."""
        self._directory = directory
        self._loader = loader
        self._version = version

    def handler(self) -> grpc.GenericRpcHandler:
        """What a ``grpc.aio`` server needs to serve this."""
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(_answering(_parsing(method, request)), None, _serialised)
            for name, method, request in (
                ("ServerLive", self._server_live, pb.ServerLiveRequest),
                ("ServerReady", self._server_ready, pb.ServerReadyRequest),
                ("ModelReady", self._model_ready, pb.ModelReadyRequest),
                ("ServerMetadata", self._server_metadata, pb.ServerMetadataRequest),
                ("ModelMetadata", self._model_metadata, pb.ModelMetadataRequest),
                ("ModelConfig", self._model_config, pb.ModelConfigRequest),
                ("ModelStatistics", self._model_statistics, pb.ModelStatisticsRequest),
                ("RepositoryIndex", self._repository_index, pb.RepositoryIndexRequest),
                ("RepositoryModelLoad", self._load, pb.RepositoryModelLoadRequest),
                ("RepositoryModelUnload", self._unload, pb.RepositoryModelUnloadRequest),
            )
        }
        handlers["ModelInfer"] = grpc.unary_unary_rpc_method_handler(_answering(self._model_infer))
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    async def _model_infer(self, message: bytes) -> bytes | ErrorReply:
        model, version = decode_address(message)
        handle = await self._directory.handle(model)
        if len(message) <= _BY_VALUE_BYTES:
            handle = handle.options(_by_reference=False)
        answer: bytes | ErrorReply = await _call(handle, "infer_grpc", message, version)
        return answer

    async def _server_live(self, _request: pb.ServerLiveRequest) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    async def _server_ready(self, _request: pb.ServerReadyRequest) -> pb.ServerReadyResponse:
        states = await asyncio.to_thread(model_states)
        return pb.ServerReadyResponse(ready=all(state.state == "READY" for state in states))

    async def _model_ready(self, request: pb.ModelReadyRequest) -> pb.ModelReadyResponse:
        try:
            served = await self._directory.served(request.name)
        except ProtocolError:
            return pb.ModelReadyResponse(ready=False)
        return pb.ModelReadyResponse(ready=request.version in ("", served.version))

    async def _server_metadata(self, _request: pb.ServerMetadataRequest) -> pb.ServerMetadataResponse:
        return _message_of(server_metadata(self._version), pb.ServerMetadataResponse())

    async def _model_metadata(self, request: pb.ModelMetadataRequest) -> pb.ModelMetadataResponse:
        return _message_of(await self._ask(request, "metadata"), pb.ModelMetadataResponse())

    async def _model_config(self, request: pb.ModelConfigRequest) -> pb.ModelConfigResponse:
        return pb.ModelConfigResponse(config=_message_of(await self._ask(request, "config"), pb.ModelConfig()))

    async def _model_statistics(self, request: pb.ModelStatisticsRequest) -> pb.ModelStatisticsResponse:
        if request.name:
            statistics = [await self._ask(request, "statistics")]
        else:
            statistics = await self._directory.statistics()
        return pb.ModelStatisticsResponse(model_stats=[_message_of(each, pb.ModelStatistics()) for each in statistics])

    async def _repository_index(self, request: pb.RepositoryIndexRequest) -> pb.RepositoryIndexResponse:
        return pb.RepositoryIndexResponse(
            models=[
                _message_of(state, pb.RepositoryIndexResponse.ModelIndex())
                for state in await self._loader.index()
                if state.state == "READY" or not request.ready
            ]
        )

    async def _load(self, request: pb.RepositoryModelLoadRequest) -> pb.RepositoryModelLoadResponse:
        check_parameters(request.parameters)
        await self._loader.load(request.model_name)
        return pb.RepositoryModelLoadResponse()

    async def _unload(self, request: pb.RepositoryModelUnloadRequest) -> pb.RepositoryModelUnloadResponse:
        check_parameters(request.parameters)
        await self._loader.unload(request.model_name)
        return pb.RepositoryModelUnloadResponse()

    async def _ask(self, request: Any, method: str) -> Any:
        """What the replica of the model named in the request says."""
        return await _call(await self._directory.handle(request.name), method, request.version)


async def _call(handle: DeploymentHandle[Any], method: str, *arguments: Any) -> Any:
    """The answer of a replica; if this is cancelled, so is the call, and a request leaves the device."""
    response = getattr(handle, method).remote(*arguments)
    try:
        return await response
    except asyncio.CancelledError:
        response.cancel()
        raise


def _answering(method: Callable[[Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    """The method as ``grpc.aio`` calls it: an error ends the call with its code and message."""

    async def answer(message: Any, context: grpc.aio.ServicerContext) -> Any:
        try:
            reply = await method(message)
        except Exception as error:
            fault_id = uuid4().hex[:12]
            reply = error_reply(error, fault_id=fault_id)
            if reply.is_fault:
                logger.error("internal error %s", fault_id, exc_info=error)
        if isinstance(reply, ErrorReply):
            await context.abort(grpc.StatusCode[reply.grpc], reply.message, _trailing(reply))
        return reply

    return answer


def _parsing(method: Callable[[Any], Awaitable[Any]], kind: type[Any]) -> Callable[[bytes], Awaitable[Any]]:
    """The method for serialised messages; what is no such message is the client's fault, not ours."""

    async def parse(message: bytes) -> Any:
        try:
            request = kind.FromString(message)
        except DecodeError as error:
            raise MalformedRequestError(f"the message is no {kind.DESCRIPTOR.name}") from error
        return await method(request)

    return parse


def _trailing(reply: ErrorReply) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in reply.headers.items() if name == "Retry-After")


def _serialised(message: Any) -> bytes:
    serialised: bytes = message.SerializeToString()
    return serialised


def _message_of(answer: msgspec.Struct, empty: Answer) -> Answer:
    """The message with the fields of an HTTP answer, which has the same names."""
    ParseDict(msgspec.to_builtins(answer), empty, ignore_unknown_fields=True)
    return empty
