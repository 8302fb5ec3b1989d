"""Large JSON goes through a process of its own, and gives what it gives here."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import numpy as np
import pytest

from serve_app.codec_process import CodecProcess
from serve_app.infer_codec import InferCodec
from serve_app.protocol import RequestedOutput, RequestLimits, encode_infer_response
from serve_app.protocol import inference_pb2 as pb
from serve_app.protocol.errors import CodecProcessDiedError, DataSizeError, JsonTooLargeError, MalformedRequestError
from split_tool.plan import TensorSpec

X = TensorSpec(name="x", dtype="float32", shape=(1, "n"))
LIMITS = RequestLimits(max_json_bytes=4 << 20)
AS_JSON = (RequestedOutput(name="x", binary=False),)


@pytest.fixture
def codec() -> Iterator[InferCodec]:
    made = InferCodec((X,), (X,), LIMITS)
    yield made
    made.close()


def body(values: np.ndarray, count: int | None = None) -> bytes:
    shape = [1, len(values) if count is None else count]
    entry = {"name": "x", "datatype": "FP32", "shape": shape, "data": values.tolist()}
    return json.dumps({"id": "mine", "inputs": [entry], "parameters": {"priority": 2}}).encode()


async def test_a_large_request_and_a_large_answer_come_through_unchanged(codec: InferCodec) -> None:
    values = np.random.default_rng(0).random(50_000, np.float32)
    request = await codec.decode(body(values), None)
    np.testing.assert_array_equal(request.tensors["x"], values[None], strict=True)
    assert (request.request_id, request.priority, request.requested_outputs) == ("mine", 2, AS_JSON)
    answer = await codec.encode("m", "1", "mine", request.tensors, AS_JSON)
    assert bytes(answer.body) == encode_infer_response("m", "1", "mine", request.tensors, AS_JSON).body
    assert answer.header_length is None


async def test_large_typed_contents_of_a_grpc_request_come_through_unchanged(codec: InferCodec) -> None:
    values = np.random.default_rng(0).random(50_000, np.float32)
    message = pb.ModelInferRequest(model_name="m", id="mine")
    message.inputs.add(name="x", datatype="FP32", shape=[1, 50_000]).contents.fp32_contents.extend(values.tolist())
    request = await codec.decode_grpc(message.SerializeToString())
    np.testing.assert_array_equal(request.tensors["x"], values[None], strict=True)
    assert request.request_id == "mine"
    with pytest.raises(MalformedRequestError):
        await codec.decode_grpc(b"\xff" * 100_000)


async def test_what_is_wrong_in_a_large_request_is_told_as_ever(codec: InferCodec) -> None:
    values = np.zeros(50_000, np.float32)
    with pytest.raises(DataSizeError, match="data has 50000 elements"):
        await codec.decode(body(values, count=7), None)
    with pytest.raises(JsonTooLargeError):
        await codec.decode(bytes(5 << 20), None)


async def test_a_process_that_died_is_told_and_replaced() -> None:
    process = CodecProcess()
    first = await process.call(os.getpid)
    with pytest.raises(CodecProcessDiedError):
        await process.call(os._exit, 1)
    second = await process.call(os.getpid)
    process.close()
    assert len({first, second, os.getpid()}) == 3
