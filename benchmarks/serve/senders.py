"""The ways to a server: HTTP (``benchmarks.load.client``), gRPC, and the handles of its Ray cluster."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

import grpc
import numpy as np
import numpy.typing as npt
import ray

from benchmarks.load.client import HttpSender, open_session
from benchmarks.load.errors import ModelFailedError
from benchmarks.load.grpc_infer import open_infer
from benchmarks.load.inputs import Arrays, prepare_requests
from benchmarks.load.loops import Failure, Sender
from benchmarks.serve.competitors import Launch
from serve_app.client.handles import AsyncHandleClient
from serve_app.protocol.binary_data import array_from_binary
from serve_app.protocol.datatypes import datatype_named, datatype_of_array
from serve_app.protocol.infer_response import array_to_binary
from serve_app.protocol.inference_pb2 import ModelInferRequest, ModelInferResponse

Via = Literal["http", "grpc", "handle"]

ANSWER_TIMEOUT_S = 120.0


@contextlib.asynccontextmanager
async def open_sender(via: Via, launch: Launch, inputs: Mapping[str, Arrays]) -> AsyncIterator[Sender]:
    """A sender to a server that runs, closed in the end."""
    if via == "http":
        async with open_session(timeout_s=ANSWER_TIMEOUT_S) as session:
            yield HttpSender(session, launch.url, prepare_requests(inputs))
    elif via == "grpc":
        async with open_infer(launch.grpc) as infer:
            yield GrpcSender(infer, inputs)
    else:
        ray.init(address="auto", log_to_driver=False)
        try:
            yield HandleSender(inputs)
        finally:
            ray.shutdown()


class GrpcSender:
    """Requests with raw contents, serialised beforehand."""

    def __init__(self, infer: grpc.aio.UnaryUnaryMultiCallable, inputs: Mapping[str, Arrays]) -> None:
        """A sender over an open channel (see ``open_infer``)."""
        self._messages = {model: _message(model, arrays) for model, arrays in inputs.items()}
        self._call = infer

    async def send(self, model: str) -> Failure | None:
        """See ``Sender``."""
        try:
            await self._call(self._messages[model], timeout=ANSWER_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            return Failure(f"gRPC {error.code().name}", error.details() or "")
        return None

    async def outputs(self, model: str) -> dict[str, npt.NDArray[Any]]:
        """See ``Sender``."""
        try:
            answer = ModelInferResponse.FromString(await self._call(self._messages[model], timeout=ANSWER_TIMEOUT_S))
        except grpc.aio.AioRpcError as error:
            raise ModelFailedError(
                f"model '{model}' does not answer: {error.code().name}: {error.details()}"
            ) from error
        outputs = {}
        for entry, data in zip(answer.outputs, answer.raw_output_contents, strict=True):
            datatype = datatype_named(entry.datatype)
            assert datatype is not None, entry.datatype
            outputs[entry.name] = np.array(
                array_from_binary(entry.name, datatype, tuple(entry.shape), memoryview(data))
            )
        return outputs


class HandleSender:
    """Requests over deployment handles; this process is in the server's cluster."""

    def __init__(self, inputs: Mapping[str, Arrays]) -> None:
        """See ``AsyncHandleClient``."""
        self._inputs = inputs
        self._client = AsyncHandleClient()

    async def send(self, model: str) -> Failure | None:
        """See ``Sender``."""
        try:
            await self._client.infer(model, self._inputs[model])
        except Exception as error:  # whatever a client may see is a failure of its kind
            return Failure(type(error).__name__, str(error))
        return None

    async def outputs(self, model: str) -> dict[str, npt.NDArray[Any]]:
        """See ``Sender``; raises what the client raises."""
        return await self._client.infer(model, self._inputs[model])


def _message(model: str, arrays: Arrays) -> bytes:
    request = ModelInferRequest(model_name=model)
    for name, array in arrays.items():
        datatype = datatype_of_array(array.dtype)
        assert datatype is not None, array.dtype
        request.inputs.add(name=name, datatype=datatype.name, shape=array.shape)
        data = array_to_binary(datatype, array)
        request.raw_input_contents.append(bytes(data))
    message: bytes = request.SerializeToString()
    return message
