"""Requests and responses of one model; large JSON goes through a process of its own.

Parsing or writing JSON numbers holds the interpreter lock, about 8 ms per megabyte, and a device thread in the same
process waits for it at a block boundary. Binary tensors are views and are decoded here.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping
from typing import Any

import numpy.typing as npt

from serve_app.codec_process import CodecProcess
from serve_app.protocol import (
    EncodedResponse,
    InferRequest,
    RequestedOutput,
    RequestLimits,
    decode_infer_request,
    encode_infer_response,
)
from serve_app.protocol.grpc_codec import decode_model_infer, num_raw_bytes
from split_tool.plan import TensorSpec

MAX_JSON_BYTES_HERE = 64 * 1024
"""Larger JSON is read in the other process, which costs about a millisecond; this takes half of one."""
MAX_JSON_ELEMENTS_HERE = 8 * 1024
"""The same for the elements of outputs that go as JSON."""

_Arrays = Mapping[str, npt.NDArray[Any]]


class InferCodec:
    """Decodes requests for a model and encodes its answers; used by one event loop."""

    def __init__(
        self,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        limits: RequestLimits,
        *,
        device_cores: Collection[int] = (),
    ) -> None:
        """A codec of a model that takes ``inputs`` and gives ``outputs``; its process keeps off ``device_cores``."""
        self._inputs = inputs
        self._outputs = outputs
        self._limits = limits
        self._process = CodecProcess(avoided_cores=device_cores)

    async def decode(self, body: bytes | bytearray, header_length: int | None) -> InferRequest:
        """See ``decode_infer_request``.

        Raises:
            ProtocolError: One subclass per situation.
        """
        json_bytes = len(body) if header_length is None else header_length
        if not MAX_JSON_BYTES_HERE < json_bytes <= self._limits.max_json_bytes:
            return decode_infer_request(memoryview(body), header_length, self._inputs, self._outputs, self._limits)
        return await self._process.call(
            decode_infer_request, pickle.PickleBuffer(body), header_length, self._inputs, self._outputs, self._limits
        )

    async def decode_grpc(self, message: bytes) -> InferRequest:
        """See ``decode_model_infer``; typed contents cost as much as JSON.

        Raises:
            ProtocolError: One subclass per situation.
        """
        typed_bytes = len(message) - num_raw_bytes(message)
        if not MAX_JSON_BYTES_HERE < typed_bytes <= self._limits.max_json_bytes:
            return decode_model_infer(message, self._inputs, self._outputs, self._limits)
        return await self._process.call(
            _decode_grpc, pickle.PickleBuffer(message), self._inputs, self._outputs, self._limits
        )

    async def encode(
        self,
        model: str,
        version: str,
        request_id: str | None,
        outputs: _Arrays,
        requested: tuple[RequestedOutput, ...],
        parameters: Mapping[str, Any] | None = None,
    ) -> EncodedResponse:
        """See ``encode_infer_response``; the body of a large one is a ``memoryview``.

        Raises:
            UnencodableOutputError: If an output cannot be carried.
        """
        as_json = [outputs[output.name] for output in requested if not output.binary]
        num_elements = sum(array.size for array in as_json if array.dtype != object)
        if num_elements <= MAX_JSON_ELEMENTS_HERE:
            return encode_infer_response(model, version, request_id, outputs, requested, parameters)
        body, header_length = await self._process.call(
            _encode, model, version, request_id, dict(outputs), requested, parameters
        )
        return EncodedResponse(body=memoryview(body), header_length=header_length)

    def close(self) -> None:
        """End the process."""
        self._process.close()


def _decode_grpc(message: memoryview, *arguments: Any) -> InferRequest:
    """In the process: protobuf takes nothing but ``bytes``."""
    return decode_model_infer(bytes(message), *arguments)


def _encode(*arguments: Any) -> tuple[pickle.PickleBuffer, int | None]:
    """In the process: the body goes beside the pickle."""
    encoded = encode_infer_response(*arguments)
    return pickle.PickleBuffer(encoded.body), encoded.header_length
