"""``ModelInfer`` of the Open Inference Protocol v2 over gRPC, from serialised messages to arrays and back.

The same checks as over HTTP, in the same order and with the same messages (``request_from_header``); whatever a client
sends, decoding raises nothing but ``ProtocolError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from google.protobuf.message import DecodeError

from serve_app.protocol.binary_data import array_from_binary
from serve_app.protocol.errors import (
    BodyTooLargeError,
    DataSizeError,
    MalformedRequestError,
    TypedContentsTooLargeError,
)
from serve_app.protocol.infer_header import InferHeader, InputHeader, OutputHeader, Parameters
from serve_app.protocol.infer_request import (
    CheckedInputs,
    InferRequest,
    RequestedOutput,
    Tensors,
    request_from_header,
)
from serve_app.protocol.infer_response import datatype_of_output, strings_to_binary
from serve_app.protocol.inference_pb2 import ModelInferAddress, ModelInferRequest, ModelInferResponse
from serve_app.protocol.limits import RequestLimits
from serve_app.protocol.typed_contents import array_from_contents
from split_tool.plan import TensorSpec

_LENGTH_DELIMITED = 2


def decode_address(message: bytes) -> tuple[str, str]:
    """Model name and version of a serialised ``ModelInferRequest``, nothing else of it is read.

    Raises:
        MalformedRequestError: If the bytes are no such message.
    """
    try:
        address = ModelInferAddress.FromString(message)
    except DecodeError as error:
        raise MalformedRequestError("the message is no ModelInferRequest") from error
    return address.model_name, address.model_version


def num_raw_bytes(message: bytes) -> int:
    """How much of a serialised ``ModelInferRequest`` is raw contents; 0 for what is no such message.

    Looks at the borders of its fields only: O(inputs), whatever their size.
    """
    offset = num_bytes = 0
    try:
        while offset < len(message):
            tag, offset = _varint(message, offset)
            length, offset = _varint(message, offset)
            if tag & 7 != _LENGTH_DELIMITED:  # as all fields of the message are
                return 0
            num_bytes += length if tag >> 3 == ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER else 0
            offset += length
    except IndexError:
        return 0
    return num_bytes


def decode_model_infer(
    message: bytes, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], limits: RequestLimits
) -> InferRequest:
    """The request in a serialised ``ModelInferRequest``, checked against the model.

    Args:
        message: As received.
        inputs: What the model takes.
        outputs: What the model gives.
        limits: Upper bounds; typed contents count as the JSON part does, because they cost as much to read.

    Raises:
        ProtocolError: One subclass per situation; see ``serve_app.protocol.errors``.
    """
    if len(message) > limits.max_body_bytes:
        raise BodyTooLargeError(f"the message has {len(message)} bytes, at most {limits.max_body_bytes} are allowed")
    try:
        request = ModelInferRequest.FromString(message)
    except DecodeError as error:
        raise MalformedRequestError("the message is no ModelInferRequest") from error
    header: InferHeader[Any] = InferHeader(
        id=request.id,
        parameters=_parameters(request.parameters),
        inputs=tuple(
            InputHeader(
                name=tensor.name,
                shape=tuple(tensor.shape),
                datatype=tensor.datatype,
                parameters=_parameters(tensor.parameters),
            )
            for tensor in request.inputs
        ),
        outputs=tuple(
            OutputHeader(name=output.name, parameters=_parameters(output.parameters)) for output in request.outputs
        ),
    )
    return request_from_header(header, inputs, outputs, lambda checked: _tensors(request, checked, limits))


def encode_model_infer(
    model_name: str,
    model_version: str,
    request_id: str | None,
    outputs: Mapping[str, npt.NDArray[Any]],
    requested: tuple[RequestedOutput, ...],
    parameters: Mapping[str, Any] | None = None,
) -> bytes:
    """The serialised ``ModelInferResponse`` with the requested outputs in their order, all as raw contents; O(size).

    ``parameters`` are plain values about the request, each as JSON in a ``string_param``.

    Raises:
        UnencodableOutputError: If an output is no array, or of a dtype that the protocol lacks.
    """
    response = ModelInferResponse(model_name=model_name, model_version=model_version, id=request_id or "")
    for key, value in (parameters or {}).items():
        response.parameters[key].string_param = orjson.dumps(value).decode()
    for output in requested:
        array = outputs[output.name]
        datatype = datatype_of_output(output.name, array)
        response.outputs.add(name=output.name, datatype=datatype.name, shape=array.shape)
        is_text = datatype.family == "bytes"
        response.raw_output_contents.append(strings_to_binary(array) if is_text else np.asarray(array).tobytes())
    message: bytes = response.SerializeToString()
    return message


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    """The number at the offset in protobuf's variable length, and where it ends."""
    number = shift = 0
    while True:
        byte = message[offset]
        number |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80:
            return number, offset


def _parameters(parameters: Any) -> Parameters:
    """``InferParameter`` by name, as plain values; one without a value counts as absent."""
    plain: Parameters = {}
    for key, parameter in parameters.items():
        choice = parameter.WhichOneof("parameter_choice")
        if choice is not None:
            plain[key] = getattr(parameter, choice)
    return plain


def _tensors(request: ModelInferRequest, checked: CheckedInputs, limits: RequestLimits) -> Tensors:
    """All inputs: raw contents for each of them, in their order, or typed contents in each."""
    raw = request.raw_input_contents
    if not raw:
        return _typed_tensors(request, checked, limits)
    if len(raw) != len(checked):
        raise DataSizeError(f"raw_input_contents has {len(raw)} entries for {len(checked)} inputs: give one for each")
    tensors: Tensors = {}
    for index, (entry, datatype) in enumerate(checked):
        if request.inputs[index].HasField("contents"):
            raise DataSizeError(f"input '{entry.name}' has contents although the request has raw_input_contents")
        tensors[entry.name] = array_from_binary(entry.name, datatype, entry.shape, memoryview(raw[index]))
    return tensors


def _typed_tensors(request: ModelInferRequest, checked: CheckedInputs, limits: RequestLimits) -> Tensors:
    size_bytes = sum(tensor.contents.ByteSize() for tensor in request.inputs)
    if size_bytes > limits.max_json_bytes:
        raise TypedContentsTooLargeError(
            f"the request has {size_bytes} bytes of typed contents, at most {limits.max_json_bytes} are allowed: send "
            "large tensors in raw_input_contents"
        )
    return {
        entry.name: array_from_contents(entry.name, datatype, entry.shape, request.inputs[index].contents)
        for index, (entry, datatype) in enumerate(checked)
    }
