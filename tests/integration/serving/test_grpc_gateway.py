"""gRPC through a real gateway to real models: answers, cancellation down to the device, updates of the gateway."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from ray import serve

from serve_app.app import gateway
from serve_app.grpc_service import SERVICE
from serve_app.protocol import inference_pb2 as pb
from serve_app.sections import GatewayConfig
from serve_app.server import free_port
from tests.integration.serving.conftest import Deploy
from tests.integration.serving.observe import slices, status, wait_until
from tests.models import random_input, whole_model_outputs

LIMIT_S = 30.0
Method = Callable[..., Any]


@pytest.fixture(scope="module")
def port(cluster: int) -> Iterator[int]:
    """Where the gateway's gRPC listens."""
    chosen = free_port()
    serve.run(gateway(GatewayConfig(grpc_port=chosen)), name="gateway", route_prefix="/gateway")
    yield chosen
    serve.delete("gateway")


@pytest.fixture
def channel(port: int) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened


@pytest.fixture
def infer(channel: grpc.Channel) -> Method:
    method: Method = channel.unary_unary(f"/{SERVICE}/ModelInfer")
    return method


def message(model: str, num_padding_bytes: int = 0) -> bytes:
    """A request with a random picture, which has 600 KB; padding makes the gateway send it through the object store."""
    ((name, array),) = random_input(model).items()
    request = pb.ModelInferRequest(model_name=model)
    request.inputs.add(name=name, datatype="FP32", shape=array.shape)
    request.raw_input_contents.append(array.tobytes())
    if num_padding_bytes:
        request.parameters["padding"].string_param = "x" * num_padding_bytes
    encoded: bytes = request.SerializeToString()
    return encoded


@pytest.mark.parametrize("num_padding_bytes", [0, 2**20], ids=["by value", "by reference"])
def test_the_answer_is_bit_identical_to_plain_onnxruntime(
    deploy: Deploy, infer: Method, num_padding_bytes: int
) -> None:
    deploy("squeezenet")
    answer = pb.ModelInferResponse.FromString(infer(message("squeezenet", num_padding_bytes), timeout=LIMIT_S))
    ((name, expected),) = whole_model_outputs("squeezenet", random_input("squeezenet")).items()
    assert [output.name for output in answer.outputs] == [name]
    assert answer.raw_output_contents[0] == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("num_padding_bytes", [0, 2**20], ids=["by value", "by reference"])
def test_a_cancelled_call_leaves_the_queue_while_it_waits_and_the_device_while_it_runs(
    deploy: Deploy, infer: Method, num_padding_bytes: int
) -> None:
    deploy("vgg19")
    request = message("vgg19", num_padding_bytes)
    since = status("cpu-0")["num_slices"]
    running = infer.future(request)  # type: ignore[attr-defined]
    wait_until(lambda: bool(status("cpu-0")["snapshot"]["holders"]), "the first request runs")
    waiting = infer.future(request)  # type: ignore[attr-defined]
    wait_until(lambda: len(status("cpu-0")["snapshot"]["waiting"]) == 1, "the second request waits")
    waiting.cancel()
    wait_until(lambda: not status("cpu-0")["snapshot"]["waiting"], "the queue is empty")
    running.cancel()
    wait_until(lambda: bool(slices("cpu-0", since)), "the turn is recorded")
    assert [turn["outcome"] for turn in slices("cpu-0", since)] == ["cancelled"]


def test_the_gateway_is_replaced_without_an_outage(channel: grpc.Channel, port: int) -> None:
    server_live = channel.unary_unary(f"/{SERVICE}/ServerLive")
    has_stopped = threading.Event()
    failures: list[Any] = []

    def ask() -> None:
        while not has_stopped.is_set():
            try:
                server_live(b"", wait_for_ready=True, timeout=LIMIT_S)
            except grpc.RpcError as error:
                failures.append(error)

    def is_new_limit_in_force() -> bool:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as fresh:
            try:
                fresh.unary_unary(f"/{SERVICE}/ModelInfer")(bytes(2**20 + 1), wait_for_ready=True, timeout=LIMIT_S)
            except grpc.RpcError as error:
                return bool(error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED)  # type: ignore[attr-defined]
        return False

    assert not is_new_limit_in_force()
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        config = GatewayConfig(grpc_port=port, grpc_max_message_mb=1)
        serve.run(gateway(config), name="gateway", route_prefix="/gateway")
        wait_until(is_new_limit_in_force, "the new replica answers")
    finally:
        has_stopped.set()
        thread.join()
    # gRPC cancels a call that comes in the very instant in which its server shuts down
    assert [error.code() for error in failures] in ([], [grpc.StatusCode.CANCELLED])
