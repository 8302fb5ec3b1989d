"""What is checked of a request against the model before any data is read: names, datatypes, shapes."""

from __future__ import annotations

import sys
from typing import Any

from serve_app.protocol.datatypes import DATATYPES, Datatype, datatype_named, datatype_of_onnx
from serve_app.protocol.errors import (
    DatatypeError,
    DuplicateInputError,
    DuplicateOutputError,
    MissingInputError,
    ShapeError,
    UnknownInputError,
    UnknownOutputError,
    UnsupportedFeatureError,
)
from serve_app.protocol.infer_header import InputHeader, OutputHeader
from split_tool.plan import TensorSpec

MAX_RANK = 64  # numpy's


def check_input_names(inputs: tuple[InputHeader[Any], ...], specs: tuple[TensorSpec, ...]) -> None:
    """Pass if every input is one of the model's, none is there twice, and none that the model needs is missing.

    Raises:
        UnknownInputError, DuplicateInputError, MissingInputError: As their names say.
    """
    known = {spec.name for spec in specs}
    seen: set[str] = set()
    for header in inputs:
        if header.name not in known:
            raise UnknownInputError(f"the model has no input {_quote(header.name)}; it has {_names(specs)}")
        if header.name in seen:
            raise DuplicateInputError(f"input '{header.name}' is there twice")
        seen.add(header.name)
    missing = tuple(spec for spec in specs if spec.name not in seen and spec.kind != "optional")
    if missing:
        raise MissingInputError(f"the model also needs the input {_names(missing)}; the request has {len(seen)} inputs")


def check_output_names(outputs: tuple[OutputHeader, ...], specs: tuple[TensorSpec, ...]) -> None:
    """Pass if every output asked for is one of the model's, once, and can be carried.

    Raises:
        UnknownOutputError, DuplicateOutputError: As their names say.
        UnsupportedFeatureError: If the output is no tensor, or of a type that the protocol lacks.
    """
    known = {spec.name: spec for spec in specs}
    seen: set[str] = set()
    for header in outputs:
        if header.name not in known:
            raise UnknownOutputError(f"the model has no output {_quote(header.name)}; it has {_names(specs)}")
        if header.name in seen:
            raise DuplicateOutputError(f"output '{header.name}' is asked for twice")
        seen.add(header.name)
        check_carried("output", known[header.name])


def check_carried(side: str, spec: TensorSpec) -> Datatype:
    """The datatype of an input or output of the model.

    Raises:
        UnsupportedFeatureError: If it is a sequence, or of a type that the protocol lacks.
    """
    if spec.kind == "sequence":
        raise UnsupportedFeatureError(
            f"{side} '{spec.name}' of the model is a sequence; the protocol carries tensors only"
        )
    datatype = datatype_of_onnx(spec.dtype)
    if datatype is None:
        raise UnsupportedFeatureError(
            f"{side} '{spec.name}' of the model is of type {spec.dtype}, which the protocol cannot carry"
        )
    return datatype


def check_input_type(header: InputHeader[Any], spec: TensorSpec) -> Datatype:
    """The datatype of the input, which is the model's.

    Raises:
        DatatypeError: If the client states another one.
        UnsupportedFeatureError: If the model's own type cannot be carried.
    """
    expected = check_carried("input", spec)
    if datatype_named(header.datatype) is None:
        raise DatatypeError(
            f"input '{spec.name}': unknown datatype {_quote(header.datatype)}; there are "
            + ", ".join(datatype.name for datatype in DATATYPES)
        )
    if header.datatype != expected.name:
        raise DatatypeError(f"input '{spec.name}' has datatype {header.datatype}, the model takes {expected.name}")
    return expected


def check_input_shape(header: InputHeader[Any], spec: TensorSpec, datatype: Datatype) -> None:
    """Pass if the model takes the shape; that two axes of the same symbol agree is left to the runtime.

    Nothing is allocated from a stated shape: the data has to be there in that size.

    Raises:
        ShapeError: If an axis is negative, or differs from a fixed axis of the model, or the rank does, or no
            machine could address such a tensor.
    """

    def refusal(why: str) -> ShapeError:
        return ShapeError(f"input '{spec.name}' has shape {_short_list(header.shape)}; {why}")

    if any(length < 0 for length in header.shape):
        raise refusal("no axis can be negative")
    if spec.shape is not None and (
        len(header.shape) != len(spec.shape)
        or any(isinstance(axis, int) and axis != length for length, axis in zip(header.shape, spec.shape, strict=True))
    ):
        raise refusal(f"the model takes {describe_shape(spec.shape)}")
    if len(header.shape) > MAX_RANK:
        raise ShapeError(f"input '{spec.name}' has {len(header.shape)} axes; at most {MAX_RANK} are possible")
    # Zero axes count as one: numpy multiplies the others even where the tensor is empty.
    addressed_bytes = datatype.dtype.itemsize
    for length in header.shape:
        addressed_bytes *= max(length, 1)
    if addressed_bytes > sys.maxsize:
        raise refusal("no machine can address a tensor of that size")


def describe_shape(shape: tuple[int | str | None, ...]) -> str:
    """The shape for people: ``[N, 3, 224, 224]``, ``?`` for an unnamed dynamic axis."""
    return "[" + ", ".join("?" if axis is None else str(axis) for axis in shape) + "]"


def _names(specs: tuple[TensorSpec, ...]) -> str:
    return ", ".join(f"'{spec.name}'" for spec in specs) or "none"


def _quote(text: str) -> str:
    return f"'{text}'" if len(text) <= 100 else f"'{text[:100]}...'"


def _short_list(shape: tuple[int, ...]) -> str:
    shown = [str(length) if length.bit_length() < 100 else "a huge number" for length in shape[:16]]
    return "[" + ", ".join([*shown, *(["..."] if len(shape) > 16 else [])]) + "]"
