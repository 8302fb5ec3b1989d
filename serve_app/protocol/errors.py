"""Everything the codec refuses, one class per situation; ``serve_app.status`` gives each its HTTP and gRPC code.

The message names the tensor, what was found and what is allowed; it goes to the client as it is. Errors hold
nothing but the message, so they survive pickling. What a Python client gets as ``InputRefusedError`` is one over every
protocol.
"""

from __future__ import annotations

from deployments.runtime.errors import InputRefusedError


class ProtocolError(Exception):
    """Base of all errors of this package: the request cannot be understood or is not for this model."""


class BodyTooLargeError(ProtocolError):
    """The body, or what it decompresses to, is over the limit."""


class JsonTooLargeError(ProtocolError):
    """The JSON part of the body is over its limit; the binary form has room for more."""


class TypedContentsTooLargeError(ProtocolError):
    """The typed contents of a gRPC request are over their limit; raw contents have room for more."""


class ContentEncodingError(ProtocolError):
    """The ``Content-Encoding`` is unknown, or the body is not encoded that way."""


class HeaderLengthError(ProtocolError):
    """``Inference-Header-Content-Length`` is no length, or does not fit the body."""


class MalformedRequestError(ProtocolError):
    """The body is no JSON object of the shape that the protocol describes."""


class UnsupportedFeatureError(ProtocolError):
    """The request uses a part of the protocol that this server does not have."""


class ParameterError(ProtocolError):
    """A parameter of the request has a value of the wrong kind or out of range."""


class UnknownInputError(ProtocolError, InputRefusedError):
    """The model has no input of this name."""


class DuplicateInputError(ProtocolError):
    """An input is there twice."""


class MissingInputError(ProtocolError, InputRefusedError):
    """The model needs an input that is not there."""


class UnknownOutputError(ProtocolError):
    """The model has no output of this name."""


class DuplicateOutputError(ProtocolError):
    """An output is asked for twice."""


class DatatypeError(ProtocolError, InputRefusedError):
    """The datatype of an input is unknown, or is not the model's."""


class ShapeError(ProtocolError, InputRefusedError):
    """The shape of an input is impossible, or is not one that the model takes."""


class DataSizeError(ProtocolError):
    """An input has more or less data than its shape says, or bytes are left over."""


class DataValueError(ProtocolError, InputRefusedError):
    """An element of an input is of the wrong kind or cannot be held by its datatype."""


class UnencodableOutputError(ProtocolError):
    """The model gave an output that the protocol cannot carry in the form asked for."""


class MalformedResponseError(ProtocolError):
    """A server's answer is none of the protocol's; raised by clients."""


class CodecProcessDiedError(ProtocolError):
    """The process that reads and writes large JSON died with the request; the next request starts another."""


class UnknownModelError(ProtocolError):
    """No model of this name is served here."""


class ModelNotReadyError(ProtocolError):
    """The model is to be served here, but is not up yet, or could not start."""


class UnknownVersionError(ProtocolError):
    """The model is served here, but not in this version."""
