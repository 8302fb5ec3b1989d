"""The client's side of an inference over HTTP: arrays to a request in binary form, and a response to arrays."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import orjson

from serve_app.protocol.binary_data import array_from_binary
from serve_app.protocol.datatypes import datatype_named, datatype_of_array
from serve_app.protocol.errors import DatatypeError, MalformedResponseError, ProtocolError
from serve_app.protocol.infer_header import Parameters
from serve_app.protocol.infer_response import array_to_binary


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRequest:
    """What goes over HTTP.

    Attributes:
        body: JSON, followed by the binary tensors.
        header_length: Bytes of JSON, for the HTTP header ``Inference-Header-Content-Length``.
    """

    body: bytes
    header_length: int


class _OutputEntry(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: Parameters = {}


class _Response(msgspec.Struct, frozen=True, kw_only=True):
    outputs: tuple[_OutputEntry, ...]


def encode_infer_request(
    inputs: Mapping[str, npt.NDArray[Any]],
    *,
    priority: int | None = None,
    timeout_us: int | None = None,
    deadline_us: int | None = None,
) -> EncodedRequest:
    """A request that asks for all outputs in binary form; one copy of the inputs.

    Args:
        inputs: Arrays by input name; text as arrays of ``str``, fixed-width or ``object``.
        priority: 1 is the highest; None: the model's default.
        timeout_us: Time after which the request is given up, in microseconds; None: the model's default.
        deadline_us: Time by which the answer is wanted; None: the server's rule.

    Raises:
        DatatypeError: If an array is of a dtype that the protocol cannot carry.
    """
    entries: list[dict[str, Any]] = []
    parts: list[bytes | memoryview] = []
    for name, array in inputs.items():
        datatype = datatype_of_array(array.dtype)
        if datatype is None:
            raise DatatypeError(f"input '{name}' is of dtype {array.dtype}, which the protocol cannot carry")
        data = array_to_binary(datatype, array)
        entry: dict[str, Any] = {"name": name, "datatype": datatype.name, "shape": array.shape}
        entries.append(entry | {"parameters": {"binary_data_size": len(data)}})
        parts.append(data)
    parameters: dict[str, int | None] = {"priority": priority, "timeout": timeout_us, "deadline": deadline_us}
    stated = {key: value for key, value in parameters.items() if value is not None}
    header = orjson.dumps({"inputs": entries, "parameters": {"binary_data_output": True, **stated}})
    return EncodedRequest(body=b"".join((header, *parts)), header_length=len(header))


def decode_infer_response(body: bytes, header_length: int) -> dict[str, npt.NDArray[Any]]:
    """The outputs by name, all of which must be in binary form; arrays of their own, aligned and writable.

    Args:
        body: As received.
        header_length: Bytes of JSON at its start.

    Raises:
        MalformedResponseError: If it is not what a server of the protocol answers to ``encode_infer_request``.
    """
    rest = memoryview(body)[header_length:]
    outputs: dict[str, npt.NDArray[Any]] = {}
    try:
        for entry in msgspec.json.decode(body[:header_length], type=_Response).outputs:
            datatype = datatype_named(entry.datatype)
            size_bytes = entry.parameters.get("binary_data_size")
            if datatype is None or not isinstance(size_bytes, int):
                raise MalformedResponseError(f"output '{entry.name}' is not in a binary form of the protocol")
            array = array_from_binary(entry.name, datatype, entry.shape, rest[:size_bytes])
            outputs[entry.name] = np.array(array)
            rest = rest[size_bytes:]
    except (msgspec.MsgspecError, ProtocolError, ValueError, struct.error) as error:
        raise MalformedResponseError(f"the server's answer cannot be read: {error}") from error
    return outputs
