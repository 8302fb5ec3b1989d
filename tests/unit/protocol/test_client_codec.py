"""The client's half of the codec, against the server's half."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from serve_app.protocol import RequestedOutput, RequestLimits, decode_infer_request, encode_infer_response
from serve_app.protocol.client_codec import decode_infer_response, encode_infer_request
from serve_app.protocol.datatypes import DATATYPES, Datatype
from serve_app.protocol.errors import DatatypeError, MalformedResponseError
from split_tool.plan import TensorSpec

LIMITS = RequestLimits()


def values(datatype: Datatype, shape: tuple[int, ...]) -> np.ndarray:
    if datatype.family == "bytes":
        return np.array(["", "grüß", "x" * 300] * 4, dtype=object)[: int(np.prod(shape))].reshape(shape)
    return np.random.default_rng(1).integers(0, 2, shape).astype(datatype.dtype)


@pytest.mark.parametrize("shape", [(2, 3), (0, 4), ()], ids=str)
@pytest.mark.parametrize("datatype", DATATYPES, ids=lambda datatype: datatype.name)
def test_arrays_of_every_datatype_come_through_in_both_directions(datatype: Datatype, shape: tuple[int, ...]) -> None:
    array = values(datatype, shape)
    spec = TensorSpec(name="x", dtype=datatype.onnx_name, shape=shape)
    sent = encode_infer_request({"x": array}, priority=2, timeout_us=50, deadline_us=70)
    request = decode_infer_request(sent.body, sent.header_length, (spec,), (spec,), LIMITS)
    np.testing.assert_array_equal(request.tensors["x"], array, strict=True)
    assert (request.priority, request.timeout_us, request.deadline_us) == (2, 50, 70)
    assert request.requested_outputs == (RequestedOutput(name="x", binary=True),)
    answer = encode_infer_response("m", "1", None, {"x": array}, request.requested_outputs)
    assert answer.header_length is not None
    got = decode_infer_response(answer.body, answer.header_length)["x"]
    np.testing.assert_array_equal(got, array, strict=True)
    assert got.flags.aligned
    assert got.flags.writeable


def test_a_dtype_that_the_protocol_lacks_is_refused_by_name() -> None:
    with pytest.raises(DatatypeError, match="input 'x' is of dtype float8_e4m3fn"):
        encode_infer_request({"x": np.zeros(3, ml_dtypes.float8_e4m3fn)})


@pytest.mark.parametrize("body", [b"", b"{}", b'{"outputs": [{"name": "y", "datatype": "FP32", "shape": [2]}]}'])
def test_an_answer_that_is_none_is_told(body: bytes) -> None:
    with pytest.raises(MalformedResponseError):
        decode_infer_response(body, len(body))
