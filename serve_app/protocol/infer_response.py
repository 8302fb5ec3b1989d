"""An inference response of the Open Inference Protocol v2, from arrays to the HTTP body."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson

from serve_app.protocol.datatypes import Datatype, datatype_of_array
from serve_app.protocol.errors import UnencodableOutputError
from serve_app.protocol.infer_request import RequestedOutput

_Bytes = bytes | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedResponse:
    """What goes over HTTP.

    Attributes:
        body: JSON, followed by the binary tensors if there are any.
        header_length: Bytes of JSON for the HTTP header ``Inference-Header-Content-Length``; None, so no such
            header, if the body is JSON alone.
    """

    body: bytes | memoryview
    header_length: int | None

    @property
    def content_type(self) -> Literal["application/json", "application/octet-stream"]:
        """For the HTTP header of that name."""
        return "application/json" if self.header_length is None else "application/octet-stream"

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers that go with the body."""
        headers: dict[str, str] = {"Content-Type": self.content_type}
        if self.header_length is not None:
            headers["Inference-Header-Content-Length"] = str(self.header_length)
        return headers


def encode_infer_response(
    model_name: str,
    model_version: str,
    request_id: str | None,
    outputs: Mapping[str, npt.NDArray[Any]],
    requested: tuple[RequestedOutput, ...],
    parameters: Mapping[str, Any] | None = None,
) -> EncodedResponse:
    """The response with the requested outputs in their order; O(size), one copy of the binary tensors.

    Args:
        model_name: As the client called it.
        model_version: Of the model that answered.
        request_id: The client's id; None if it gave none.
        outputs: Array by output name, at least the requested ones. Text as ``object`` arrays of ``str`` or
            ``bytes``.
        requested: What goes in, and in which form.
        parameters: Plain values about the request; None: no such entry.

    Raises:
        UnencodableOutputError: If an output is no array, of a dtype that the protocol lacks, or BYTES that are
            no UTF-8 and yet asked for as JSON.
    """
    entries: list[dict[str, Any]] = []
    binary: list[_Bytes] = []
    for output in requested:
        array = outputs[output.name]
        datatype = datatype_of_output(output.name, array)
        entry: dict[str, Any] = {"name": output.name, "datatype": datatype.name, "shape": list(array.shape)}
        if output.binary:
            data = array_to_binary(datatype, array)
            entry["parameters"] = {"binary_data_size": len(data)}
            binary.append(data)
        else:
            entry["data"] = orjson.Fragment(_data_to_json(output.name, datatype, array))
        entries.append(entry)
    response: dict[str, Any] = {"model_name": model_name, "model_version": model_version}
    if request_id is not None:
        response["id"] = request_id
    if parameters is not None:
        response["parameters"] = parameters
    response["outputs"] = entries
    header = orjson.dumps(response)
    if not binary:
        return EncodedResponse(body=header, header_length=None)
    return EncodedResponse(body=b"".join((header, *binary)), header_length=len(header))


def datatype_of_output(name: str, array: object) -> Datatype:
    """The datatype of an output of the model.

    Raises:
        UnencodableOutputError: If it is no array, or of a dtype that the protocol lacks.
    """
    if not isinstance(array, np.ndarray):
        raise UnencodableOutputError(f"output '{name}' is a {type(array).__name__}, the protocol carries tensors only")
    datatype = datatype_of_array(array.dtype)
    if datatype is None:
        raise UnencodableOutputError(f"output '{name}' is of type {array.dtype}, which the protocol cannot carry")
    return datatype


def array_to_binary(datatype: Datatype, array: npt.NDArray[Any]) -> bytes | memoryview:
    """The array as the binary tensor extension carries it; without a copy unless it is BYTES or not row-major."""
    return strings_to_binary(array) if datatype.family == "bytes" else view_of_bytes(array)


def view_of_bytes(array: npt.NDArray[Any]) -> memoryview:
    """The array's bytes in row-major order, without a copy if they lie so."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def strings_to_binary(array: npt.NDArray[Any]) -> bytes:
    """Each element of a BYTES tensor: its length in bytes as uint32, then the text."""
    parts: list[bytes] = []
    for element in array.reshape(-1).tolist():
        encoded = element if isinstance(element, bytes) else str(element).encode()
        parts += (struct.pack("<I", len(encoded)), encoded)
    return b"".join(parts)


def _data_to_json(name: str, datatype: Datatype, array: npt.NDArray[Any]) -> bytes:
    """The elements as one flat JSON list, each with as many digits as it takes to read it back unchanged.

    NaN and the infinities are written as ``NaN``, ``Infinity`` and ``-Infinity``: no JSON, but what Triton writes
    and tritonclient reads (``null`` would be read as NaN for all three).
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    if datatype.family == "bytes":
        try:
            return orjson.dumps(
                [str(text, "utf-8") if isinstance(text, bytes) else str(text) for text in flat.tolist()]
            )
        except (UnicodeDecodeError, TypeError) as error:
            raise UnencodableOutputError(
                f"output '{name}' holds text that is not UTF-8; ask for it in binary form (binary_data: true)"
            ) from error
    if datatype.name == "BF16":
        flat = flat.astype(np.float32)
    if datatype.family == "float" and not np.isfinite(flat).all():
        return json.dumps(flat.tolist()).encode()
    return orjson.dumps(flat, option=orjson.OPT_SERIALIZE_NUMPY)
