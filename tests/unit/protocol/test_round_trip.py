"""Properties: what is encoded decodes to the same, and no bytes raise anything but ``ProtocolError``."""

from __future__ import annotations

import contextlib
import gzip
import json
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serve_app.protocol import (
    ProtocolError,
    RequestedOutput,
    RequestLimits,
    decode_infer_request,
    decompress_body,
    encode_infer_response,
    parse_header_length,
)
from serve_app.protocol.datatypes import DATATYPES, Datatype
from split_tool.plan import TensorSpec

LIMITS = RequestLimits(max_body_bytes=100_000, max_json_bytes=50_000)
QUICK = settings(suppress_health_check=[HealthCheck.too_slow])

text = st.text('aé漢\U0001f600\0"\\ ', max_size=5)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[Datatype, npt.NDArray[Any]]:
    """Any datatype, any shape up to rank 4 with rank 0 and empty axes, any bit pattern."""
    datatype = draw(st.sampled_from(DATATYPES))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=4)))
    size = int(np.prod(shape, dtype=int))
    if datatype.family == "bytes":
        array = np.empty(size, dtype=object)
        array[:] = draw(st.lists(text, min_size=size, max_size=size))
    elif datatype.family == "bool":
        array = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool)
    else:
        raw = draw(st.binary(min_size=size * datatype.dtype.itemsize, max_size=size * datatype.dtype.itemsize))
        array = np.frombuffer(raw, dtype=datatype.dtype) if raw else np.empty(0, dtype=datatype.dtype)
    return datatype, array.reshape(shape)


def response_as_request(body: bytes, header_length: int | None) -> bytes:
    """The response's outputs as a request's inputs: the two have the same form."""
    header = json.loads(body[:header_length])
    rest = b"" if header_length is None else body[header_length:]
    request = json.dumps({"inputs": header["outputs"]}).encode()
    return request + rest


@QUICK
@given(tensors(), st.booleans())
def test_what_is_encoded_decodes_to_the_same_array(tensor: tuple[Datatype, npt.NDArray[Any]], binary: bool) -> None:
    datatype, array = tensor
    requested = (RequestedOutput(name="t", binary=binary),)
    response = encode_infer_response("m", "1", None, {"t": array}, requested)
    body = response_as_request(response.body, response.header_length)
    header_length = len(body) - (len(response.body) - response.header_length) if response.header_length else None
    spec = TensorSpec(name="t", dtype=datatype.onnx_name, shape=(None,) * array.ndim)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoded = decode_infer_request(body, header_length, (spec,), (), LIMITS).tensors["t"]
    assert decoded.dtype == array.dtype
    assert decoded.shape == array.shape
    if datatype.family == "float" and not binary:
        np.testing.assert_array_equal(decoded.astype(np.float64), array.astype(np.float64))
    elif datatype.family == "bytes":
        assert decoded.tolist() == array.tolist()
    else:
        assert decoded.tobytes() == array.tobytes()


SPECS = (
    TensorSpec(name="a", dtype="float32", shape=("N", 2)),
    TensorSpec(name="b", dtype="string", shape=None, kind="optional"),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.sampled_from(["", "a", "FP32", "BYTES"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["data", "shape", "x"]), inner),
    max_leaves=6,
)
plausible_entries = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"]), "datatype": st.sampled_from(["FP32", "BYTES"])},
    optional={
        "shape": st.lists(st.integers(-1, 3) | st.just(2**63), max_size=3) | json_values,
        "data": json_values | st.lists(st.floats() | text, max_size=4),
        "parameters": st.dictionaries(st.just("binary_data_size"), st.integers(-1, 20) | json_values, max_size=1),
    },
)
plausible_requests = st.fixed_dictionaries(
    {"inputs": st.lists(plausible_entries | json_values, max_size=2)},
    optional={"id": json_values, "parameters": json_values, "outputs": st.lists(plausible_entries, max_size=2)},
)


def decode_or_refuse(body: bytes, header_length: int | None) -> None:
    with contextlib.suppress(ProtocolError), warnings.catch_warnings():
        warnings.simplefilter("error")
        decode_infer_request(body, header_length, SPECS, SPECS[:1], LIMITS)


@QUICK
@given(st.binary(max_size=60), st.none() | st.integers(-1, 70))
def test_random_bytes_raise_nothing_but_protocol_errors(body: bytes, header_length: int | None) -> None:
    decode_or_refuse(body, header_length)


@settings(QUICK, max_examples=80)
@given(plausible_requests, st.none() | st.binary(max_size=24))
def test_random_requests_raise_nothing_but_protocol_errors(request: dict[str, Any], binary: bytes | None) -> None:
    header = json.dumps(request).encode()
    decode_or_refuse(header + (binary or b""), None if binary is None else len(header))


@QUICK
@given(st.binary(max_size=40), st.sampled_from(["gzip", "deflate", "br", None]), st.booleans())
def test_random_compressed_bodies_raise_nothing_but_protocol_errors(body: bytes, encoding: str, real: bool) -> None:
    with contextlib.suppress(ProtocolError):
        decompress_body(gzip.compress(body) if real else body, encoding, LIMITS)


@QUICK
@given(st.text("0123456789-+. e²٣", max_size=20))
def test_any_header_text_is_a_length_or_refused(value: str) -> None:
    with contextlib.suppress(ProtocolError):
        length = parse_header_length(value)
        assert length is not None
        assert length >= 0
