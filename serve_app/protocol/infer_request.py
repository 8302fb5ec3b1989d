"""An inference request of the Open Inference Protocol v2, from the HTTP body to arrays.

The order of checks is the order of cost: sizes, JSON form, names, datatypes, shapes, data. Nothing is allocated
from what a client merely states, and nothing but ``ProtocolError`` is raised for any bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy.typing as npt

from serve_app.protocol.binary_data import array_from_binary
from serve_app.protocol.check import (
    check_carried,
    check_input_names,
    check_input_shape,
    check_input_type,
    check_output_names,
)
from serve_app.protocol.datatypes import Datatype
from serve_app.protocol.errors import (
    BodyTooLargeError,
    DataSizeError,
    HeaderLengthError,
    JsonTooLargeError,
    ParameterError,
    UnsupportedFeatureError,
)
from serve_app.protocol.infer_header import InferHeader, InputHeader, Parameters, parse_infer_header
from serve_app.protocol.json_data import array_from_json
from serve_app.protocol.limits import RequestLimits
from split_tool.plan import TensorSpec

_MAX_INT64 = 2**63 - 1

Tensors = dict[str, npt.NDArray[Any]]
CheckedInputs = list[tuple[InputHeader[Any], Datatype]]
"""The inputs of a request in its order, each with the model's datatype; names, datatypes and shapes fit the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedOutput:
    """An output that goes into the response.

    Attributes:
        name: Name of the output.
        binary: Whether its data goes in the binary form.
    """

    name: str
    binary: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InferRequest:
    """A request that fits the model.

    Attributes:
        request_id: The client's id, to be given back; None if it gave none.
        tensors: Array by input name. Those that came in binary form are read-only views on the body, perhaps
            unaligned. BYTES is ``object`` arrays of ``str``. Optional inputs may be absent.
        requested_outputs: In the order of the response; never empty unless the model has no outputs.
        priority: 1 is highest; None means the model's default.
        timeout_us: Time the client gives the request, in microseconds; None without one.
        deadline_us: Time by which the client wants the answer, in microseconds; None without one. Orders the queue.
        explain: Whether the answer shall tell where the request's time went.
        parameters: Everything else under ``parameters``.
    """

    request_id: str | None
    tensors: dict[str, npt.NDArray[Any]]
    requested_outputs: tuple[RequestedOutput, ...]
    priority: int | None
    timeout_us: int | None
    deadline_us: int | None
    explain: bool
    parameters: Parameters


def parse_header_length(value: str | None) -> int | None:
    """The HTTP header ``Inference-Header-Content-Length`` as a number; None if it is absent.

    Raises:
        HeaderLengthError: If it is no whole number.
    """
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise HeaderLengthError(f"Inference-Header-Content-Length must be a number of bytes, not {value[:100]!r}")
    return int(value)


def decode_infer_request(
    body: bytes | memoryview,
    header_length: int | None,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    limits: RequestLimits,
) -> InferRequest:
    """The request in an HTTP body, checked against the model; O(JSON part), the binary part is not copied.

    Args:
        body: As received, already decompressed. Keep it unchanged: the arrays are views on it.
        header_length: Bytes of JSON at its start, followed by binary tensors; None if all of it is JSON.
        inputs: What the model takes.
        outputs: What the model gives.
        limits: Upper bounds.

    Raises:
        ProtocolError: One subclass per situation; see ``serve_app.protocol.errors``.
    """
    view = memoryview(body).toreadonly()
    json_part, binary_part = _parts(view, header_length, limits)
    header = parse_infer_header(json_part)
    return request_from_header(header, inputs, outputs, lambda checked: _tensors(checked, binary_part))


def request_from_header(
    header: InferHeader[Any],
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    read_tensors: Callable[[CheckedInputs], Tensors],
) -> InferRequest:
    """The request that a header states, over whichever protocol it came; its data is read last.

    Args:
        header: Everything but the data.
        inputs: What the model takes.
        outputs: What the model gives.
        read_tensors: Gives the arrays of the inputs, once these have passed every other check.

    Raises:
        ProtocolError: One subclass per situation; see ``serve_app.protocol.errors``.
    """
    _refuse_unsupported(header)
    check_input_names(header.inputs, inputs)
    requested = _requested_outputs(header, outputs)
    specs = {spec.name: spec for spec in inputs}
    checked: CheckedInputs = []
    for entry in header.inputs:
        datatype = check_input_type(entry, specs[entry.name])
        check_input_shape(entry, specs[entry.name], datatype)
        checked.append((entry, datatype))
    rest = dict(header.parameters)
    rest.pop("binary_data_output", None)
    explain = _bool_parameter(rest, "explain", where="the request", default=False)
    rest.pop("explain", None)
    return InferRequest(
        request_id=header.id or None,
        priority=_take_count(rest, "priority"),
        timeout_us=_take_count(rest, "timeout"),
        deadline_us=_take_count(rest, "deadline"),
        explain=explain,
        tensors=read_tensors(checked),
        requested_outputs=requested,
        parameters=rest,
    )


def _parts(view: memoryview, header_length: int | None, limits: RequestLimits) -> tuple[memoryview, memoryview]:
    """The JSON and the binary part of the body."""
    if view.nbytes > limits.max_body_bytes:
        raise BodyTooLargeError(f"the body has {view.nbytes} bytes, at most {limits.max_body_bytes} are allowed")
    if header_length is not None and not 0 <= header_length <= view.nbytes:
        raise HeaderLengthError(
            f"Inference-Header-Content-Length is {header_length}, but the body has {view.nbytes} bytes"
        )
    json_bytes = view.nbytes if header_length is None else header_length
    if json_bytes > limits.max_json_bytes:
        raise JsonTooLargeError(
            f"the request has {json_bytes} bytes of JSON, at most {limits.max_json_bytes} are allowed: send large "
            "tensors in the binary form (binary_data_size and the HTTP header Inference-Header-Content-Length)"
        )
    return view[:json_bytes], view[json_bytes:]


def _refuse_unsupported(header: InferHeader[Any]) -> None:
    tensors = [(entry.name, entry.parameters) for entry in header.inputs]
    tensors += [(entry.name, entry.parameters) for entry in header.outputs]
    for name, parameters in tensors:
        for key in ("shared_memory_region", "classification"):
            if key in parameters:
                raise UnsupportedFeatureError(f"tensor '{name[:100]}': this server has no {key}")
    if header.parameters.get("sequence_id", 0) not in (0, ""):
        raise UnsupportedFeatureError("this server has no stateful sequences (parameter sequence_id)")


def _requested_outputs(header: InferHeader[Any], specs: tuple[TensorSpec, ...]) -> tuple[RequestedOutput, ...]:
    """What goes into the response: all outputs unless the client names some; JSON unless it says binary."""
    default = _bool_parameter(header.parameters, "binary_data_output", where="the request", default=False)
    if not header.outputs:
        for spec in specs:
            check_carried("output", spec)
        return tuple(RequestedOutput(name=spec.name, binary=default) for spec in specs)
    check_output_names(header.outputs, specs)
    return tuple(
        RequestedOutput(
            name=entry.name,
            binary=_bool_parameter(entry.parameters, "binary_data", where=f"output '{entry.name}'", default=default),
        )
        for entry in header.outputs
    )


def _tensors(checked: CheckedInputs, binary_part: memoryview) -> Tensors:
    """All inputs; the binary ones lie in the body one after the other, in the order of the JSON."""
    tensors: Tensors = {}
    offset = 0
    for entry, datatype in checked:
        size_bytes = entry.parameters.get("binary_data_size")
        if (size_bytes is None) == (entry.data is msgspec.UNSET):
            raise DataSizeError(
                f"input '{entry.name}' needs either data or the parameter binary_data_size, it has "
                + ("neither" if size_bytes is None else "both")
            )
        if size_bytes is None:
            tensors[entry.name] = array_from_json(entry.name, datatype, entry.shape, entry.data)
            continue
        if not isinstance(size_bytes, int) or isinstance(size_bytes, bool) or size_bytes < 0:
            raise ParameterError(
                f"input '{entry.name}': binary_data_size must be a number of bytes, not {size_bytes!r}"
            )
        if size_bytes > binary_part.nbytes - offset:
            raise DataSizeError(
                f"input '{entry.name}': binary_data_size is {size_bytes}, but {binary_part.nbytes - offset} bytes are "
                "left in the body after the JSON (is the HTTP header Inference-Header-Content-Length right?)"
            )
        data = binary_part[offset : offset + size_bytes]
        tensors[entry.name] = array_from_binary(entry.name, datatype, entry.shape, data)
        offset += size_bytes
    if offset != binary_part.nbytes:
        raise DataSizeError(f"{binary_part.nbytes - offset} bytes are left over after the last binary tensor")
    return tensors


def _bool_parameter(parameters: Parameters, key: str, *, where: str, default: bool) -> bool:
    value = parameters.get(key, default)
    if not isinstance(value, bool):
        raise ParameterError(f"{where}: {key} must be true or false, not {value!r:.100}")
    return value


def _take_count(parameters: Parameters, key: str) -> int | None:
    """Remove ``key`` and give its value; 0 means the default, as tritonclient has it."""
    value = parameters.pop(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_INT64:
        raise ParameterError(f"the parameter {key} must be a whole number from 0, not {value!r:.100}")
    return value or None
