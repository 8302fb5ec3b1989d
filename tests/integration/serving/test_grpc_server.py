"""The gateway's gRPC server, in one process: real ``grpc.aio`` on both sides, replicas made by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from ray.exceptions import ActorDiedError

from deployments.scheduling.errors import QueueFullError
from serve_app.errors import PortInUseError
from serve_app.grpc_server import GrpcServer
from serve_app.grpc_service import SERVICE, InferenceService
from serve_app.model_directory import ModelDirectory
from serve_app.model_loader import ModelLoader
from serve_app.protocol import inference_pb2 as pb
from serve_app.protocol.errors import ShapeError, UnknownModelError
from serve_app.protocol.metadata import ModelMetadata, TensorMetadata
from serve_app.sections import GatewayConfig
from serve_app.status import error_reply

LIMIT_S = 10.0


class Response:
    """What a handle call gives: to be awaited, or cancelled."""

    def __init__(self, answer: asyncio.Future[Any]) -> None:
        self._answer = answer
        self.is_cancelled = asyncio.Event()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._answer.__await__()

    def cancel(self) -> None:
        self.is_cancelled.set()


class Replica:
    """A handle and the replica behind it: answers each call with ``answer``, or leaves it open."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.has_called = asyncio.Event()
        self.calls: list[tuple[str, tuple[Any, ...], bool]] = []
        self.responses: list[Response] = []

    def options(self, *, _by_reference: bool) -> Replica:
        self._is_by_value = not _by_reference
        return self

    def __getattr__(self, method: str) -> Any:
        return Method(self, method)

    def call(self, method: str, arguments: tuple[Any, ...]) -> Response:
        future = asyncio.get_running_loop().create_future()
        if isinstance(self.answer, Exception):
            future.set_exception(self.answer)
        elif self.answer is not None:
            future.set_result(self.answer)
        self.calls.append((method, arguments, vars(self).pop("_is_by_value", False)))
        self.responses.append(Response(future))
        self.has_called.set()
        return self.responses[-1]


class Method:
    """One method of a handle."""

    def __init__(self, replica: Replica, name: str) -> None:
        self._replica, self._name = replica, name

    def remote(self, *arguments: Any) -> Response:
        return self._replica.call(self._name, arguments)


class Directory:
    """One model, ``m``."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def handle(self, model: str) -> Replica:
        if model != "m":
            raise UnknownModelError(f"there is no model {model!r}; served here: m")
        return self._replica


@pytest.fixture
def replica() -> Replica:
    return Replica()


@pytest.fixture
async def server(replica: Replica) -> AsyncIterator[GrpcServer]:
    running = await start(replica)
    yield running
    await running.stop()


async def start(replica: Replica, port: int = 0) -> GrpcServer:
    directory = cast(ModelDirectory, Directory(replica))
    service = InferenceService(directory, ModelLoader(GatewayConfig(repository=None), directory), "1.2.3")
    return await GrpcServer.start(service, host="127.0.0.1", port=port, max_message_bytes=4 << 20)


@pytest.fixture
async def channel(server: GrpcServer) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as opened:
        yield opened


Call = Callable[..., Any]


@pytest.fixture
def call(channel: grpc.aio.Channel) -> Call:
    """Calls a method with a message; gives the call."""

    def call_method(method: str, message: Any, **options: Any) -> Any:
        return channel.unary_unary(f"/{SERVICE}/{method}")(message.SerializeToString(), **options)

    return call_method


def infer_request(**fields: Any) -> pb.ModelInferRequest:
    return pb.ModelInferRequest(model_name="m", **fields)


async def test_an_inference_message_goes_to_the_replica_and_back_as_it_is(replica: Replica, call: Call) -> None:
    replica.answer = b"answer"
    request = infer_request(id="r")
    assert await call("ModelInfer", request) == b"answer"
    assert replica.calls == [("infer_grpc", (request.SerializeToString(), ""), True)]


async def test_a_large_message_goes_through_the_object_store(replica: Replica, call: Call) -> None:
    replica.answer = b"answer"
    await call("ModelInfer", infer_request(raw_input_contents=[bytes(2 << 20)]))
    assert replica.calls[0][2] is False


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (error_reply(ShapeError("bad shape"), fault_id=""), "INVALID_ARGUMENT", "bad shape"),
        (QueueFullError("r", 3, 3), "RESOURCE_EXHAUSTED", "3"),
        (ActorDiedError(), "UNAVAILABLE", "died unexpectedly"),
        (ZeroDivisionError("secret"), "INTERNAL", "internal error"),
    ],
)
async def test_errors_end_the_call_with_the_code_of_the_table(
    replica: Replica, call: Call, answer: Any, code: str, text: str
) -> None:
    replica.answer = answer
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call("ModelInfer", infer_request())
    assert caught.value.code().name == code
    assert text in caught.value.details()
    assert "secret" not in caught.value.details()


async def test_a_full_queue_says_when_to_come_back(replica: Replica, call: Call) -> None:
    replica.answer = QueueFullError("r", 3, 3)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call("ModelInfer", infer_request())
    assert ("retry-after", "1") in list(caught.value.trailing_metadata())


async def test_an_unknown_model_is_not_found_and_not_ready(call: Call) -> None:
    for method, message in [
        ("ModelInfer", pb.ModelInferRequest(model_name="nope")),
        ("ModelMetadata", pb.ModelMetadataRequest(name="nope")),
        ("ModelConfig", pb.ModelConfigRequest(name="nope")),
        ("ModelStatistics", pb.ModelStatisticsRequest(name="nope")),
    ]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(method, message)
        assert (caught.value.code().name, "served here: m" in caught.value.details()) == ("NOT_FOUND", True)


@pytest.mark.parametrize("method", ["ModelInfer", "ModelMetadata", "RepositoryIndex"])
async def test_bytes_that_are_no_message_are_the_clients_fault(channel: grpc.aio.Channel, method: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="the message is no ") as caught:
        await channel.unary_unary(f"/{SERVICE}/{method}")(b"\xff\xff")
    assert caught.value.code().name == "INVALID_ARGUMENT"


async def test_a_gateway_without_a_repository_does_not_load(call: Call) -> None:
    for method in ("RepositoryModelLoad", "RepositoryModelUnload"):
        with pytest.raises(grpc.aio.AioRpcError, match="set repository in the gateway's args") as caught:
            await call(method, pb.RepositoryModelLoadRequest(model_name="m"))
        assert caught.value.code().name == "PERMISSION_DENIED"


async def test_nothing_of_a_model_comes_with_the_request_to_load_it(call: Call) -> None:
    request = pb.RepositoryModelLoadRequest(model_name="m")
    request.parameters["file:1/model.onnx"].bytes_param = b"x"
    with pytest.raises(grpc.aio.AioRpcError, match="models load from the server's own repository alone") as caught:
        await call("RepositoryModelLoad", request)
    assert caught.value.code().name == "INVALID_ARGUMENT"


async def test_a_cancelled_call_cancels_the_request_at_the_replica(replica: Replica, call: Call) -> None:
    running = call("ModelInfer", infer_request())
    await asyncio.wait_for(replica.has_called.wait(), LIMIT_S)
    running.cancel()
    await asyncio.wait_for(replica.responses[0].is_cancelled.wait(), LIMIT_S)


async def test_a_deadline_that_passes_cancels_the_request_at_the_replica(replica: Replica, call: Call) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call("ModelInfer", infer_request(), timeout=0.1)
    assert caught.value.code().name == "DEADLINE_EXCEEDED"
    await asyncio.wait_for(replica.responses[0].is_cancelled.wait(), LIMIT_S)


async def test_metadata_is_what_the_replica_says(replica: Replica, call: Call) -> None:
    tensor = TensorMetadata(name="x", datatype="FP32", shape=(-1, 3))
    replica.answer = ModelMetadata(
        name="m", versions=("1",), platform="p", inputs=(tensor,), outputs=(), parameters={"num_blocks": 2}
    )
    answer = pb.ModelMetadataResponse.FromString(await call("ModelMetadata", pb.ModelMetadataRequest(name="m")))
    assert (answer.name, list(answer.versions), answer.platform) == ("m", ["1"], "p")
    assert [(each.name, each.datatype, list(each.shape)) for each in answer.inputs] == [("x", "FP32", [-1, 3])]
    server = pb.ServerMetadataResponse.FromString(await call("ServerMetadata", pb.ServerMetadataRequest()))
    assert (server.name, server.version) == ("dlir-serve", "1.2.3")
    assert pb.ServerLiveResponse.FromString(await call("ServerLive", pb.ServerLiveRequest())).live


async def test_health_and_reflection_are_served(channel: grpc.aio.Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", SERVICE):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    listing = reflection_pb2.ServerReflectionRequest(list_services="")
    stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([listing]))
    async for answer in stream:
        assert SERVICE in [each.name for each in answer.list_services_response.service]


async def test_a_stopping_server_lets_the_call_in_progress_end(replica: Replica) -> None:
    server = await start(replica)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        running = channel.unary_unary(f"/{SERVICE}/ModelInfer")(infer_request().SerializeToString())
        await asyncio.wait_for(replica.has_called.wait(), LIMIT_S)
        stopping = asyncio.create_task(server.stop())
        replica.responses[0]._answer.set_result(b"late")
        assert await running == b"late"
        await stopping


async def test_two_replicas_share_a_port_and_the_second_stays_when_the_first_goes(replica: Replica) -> None:
    first = await start(replica)
    second = await start(replica, first.port)
    await first.stop()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{second.port}") as channel:
        live = await channel.unary_unary(f"/{SERVICE}/ServerLive")(b"", wait_for_ready=True, timeout=LIMIT_S)
        assert pb.ServerLiveResponse.FromString(live).live
    await second.stop()


async def test_a_port_of_somebody_else_is_told(replica: Replica) -> None:
    listener = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    with pytest.raises(PortInUseError, match=f"gRPC port {port} of 127.0.0.1 cannot be used"):
        await start(replica, port)
    listener.close()
    await listener.wait_closed()
