"""The JSON part of an inference request: its form, and how it is parsed."""

from __future__ import annotations

import json
from typing import Any, Generic, TypeVar

import msgspec

from serve_app.protocol.errors import MalformedRequestError

ParameterValue = bool | int | float | str
Parameters = dict[str, ParameterValue]

DataT = TypeVar("DataT")


class InputHeader(msgspec.Struct, Generic[DataT], frozen=True, kw_only=True):
    """One entry of ``inputs``, nothing checked but JSON types.

    Attributes:
        name: Name of the input.
        shape: As the client states it.
        datatype: As the client states it.
        parameters: ``binary_data_size`` and others.
        data: The elements: ``msgspec.Raw``, so not parsed yet, or plain Python values where the request holds
            NaN or Infinity. UNSET for the binary form.
    """

    name: str
    shape: tuple[int, ...]
    datatype: str
    parameters: Parameters = {}
    data: DataT | msgspec.UnsetType = msgspec.UNSET


class OutputHeader(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of ``outputs``: an output that the client asks for."""

    name: str
    parameters: Parameters = {}


class InferHeader(msgspec.Struct, Generic[DataT], frozen=True, kw_only=True):
    """The JSON object of a request. Keys that the protocol does not know are ignored, as other servers do."""

    id: str = ""
    parameters: Parameters = {}
    inputs: tuple[InputHeader[DataT], ...] = ()
    outputs: tuple[OutputHeader, ...] = ()


_DECODER: msgspec.json.Decoder[InferHeader[Any]] = msgspec.json.Decoder(InferHeader[msgspec.Raw])


def parse_infer_header(text: memoryview) -> InferHeader[Any]:
    """The JSON part of a request, with the elements of its tensors left unparsed.

    ``NaN``, ``Infinity`` and ``-Infinity`` are no JSON, but Triton and its clients read and write them: only a
    text that holds them takes the slow parser.

    Raises:
        MalformedRequestError: If it is no JSON object, is not UTF-8, is nested too deep, or a field is missing or
            has the wrong type.
    """
    try:
        try:
            return _DECODER.decode(text)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            raw = bytes(text)
            if b"NaN" not in raw and b"Infinity" not in raw:
                raise
        return msgspec.convert(json.loads(raw), InferHeader[Any])
    except msgspec.ValidationError as error:
        raise MalformedRequestError(f"the request does not have the form of the protocol: {error}") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise MalformedRequestError(f"the request is not valid JSON: {error}") from error
    except RecursionError as error:
        raise MalformedRequestError("the request is not usable: its JSON is nested too deep") from error
