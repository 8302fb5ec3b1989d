"""Codec of the Open Inference Protocol v2 for HTTP: bytes in, arrays out, and back. No server, no I/O, no Ray.

A handler is four calls:

    body = decompress_body(body, headers.get("content-encoding"), limits)
    length = parse_header_length(headers.get("inference-header-content-length"))
    request = decode_infer_request(body, length, plan.inputs, plan.outputs, limits)
    response = encode_infer_response(model, version, request.request_id, outputs, request.requested_outputs)

Whatever the client sends, these raise nothing but ``ProtocolError``, and ``serve_app.status`` turns that (and the
errors of scheduling and runtime) into an HTTP answer.
"""

from serve_app.protocol.compression import decompress_body
from serve_app.protocol.errors import ProtocolError
from serve_app.protocol.infer_request import (
    InferRequest,
    RequestedOutput,
    decode_infer_request,
    parse_header_length,
)
from serve_app.protocol.infer_response import EncodedResponse, encode_infer_response
from serve_app.protocol.limits import RequestLimits
from serve_app.protocol.metadata import ModelMetadata, ServerMetadata, encode_json, model_metadata, server_metadata

__all__ = [
    "EncodedResponse",
    "InferRequest",
    "ModelMetadata",
    "ProtocolError",
    "RequestLimits",
    "RequestedOutput",
    "ServerMetadata",
    "decode_infer_request",
    "decompress_body",
    "encode_infer_response",
    "encode_json",
    "model_metadata",
    "parse_header_length",
    "server_metadata",
]
