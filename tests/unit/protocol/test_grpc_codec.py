"""``ModelInfer`` messages: the same checks and the same arrays as over HTTP."""

from __future__ import annotations

import contextlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve_app.protocol import InferRequest, RequestedOutput, RequestLimits, errors
from serve_app.protocol.grpc_codec import decode_address, decode_model_infer, encode_model_infer, num_raw_bytes
from serve_app.protocol.inference_pb2 import ModelInferRequest, ModelInferResponse
from split_tool.plan import TensorSpec

OUTPUTS = (TensorSpec(name="y", dtype="float32", shape=(None,)),)
X = (TensorSpec(name="x", dtype="float32", shape=("N", 2)),)


def spec(dtype: str, shape: tuple[int | str | None, ...] | None = None) -> tuple[TensorSpec, ...]:
    return (TensorSpec(name="x", dtype=dtype, shape=shape),)


def request(datatype: str, shape: list[int], raw: bytes | None = None, **contents: Any) -> ModelInferRequest:
    message = ModelInferRequest(model_name="m", id="r")
    tensor = message.inputs.add(name="x", datatype=datatype, shape=shape)
    if raw is not None:
        message.raw_input_contents.append(raw)
    for field, values in contents.items():
        getattr(tensor.contents, field).extend(values)
    return message


def decode(
    message: ModelInferRequest, inputs: tuple[TensorSpec, ...], limits: RequestLimits | None = None
) -> InferRequest:
    return decode_model_infer(message.SerializeToString(), inputs, OUTPUTS, limits or RequestLimits())


def test_the_address_is_read_without_the_rest() -> None:
    message = request("FP32", [1, 2], b"12345678")
    message.model_version = "1"
    assert decode_address(message.SerializeToString()) == ("m", "1")
    with pytest.raises(errors.MalformedRequestError):
        decode_address(b"\xff\xff")


def test_raw_contents_become_the_array_they_were() -> None:
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    decoded = decode(request("FP32", [3, 2], array.tobytes()), X)
    np.testing.assert_array_equal(decoded.tensors["x"], array, strict=True)
    assert decoded.request_id == "r"
    assert [output.name for output in decoded.requested_outputs] == ["y"]


@pytest.mark.parametrize(
    ("dtype", "datatype", "field", "values"),
    [
        ("bool", "BOOL", "bool_contents", [True, False]),
        ("int8", "INT8", "int_contents", [-128, 127]),
        ("int16", "INT16", "int_contents", [-1, 300]),
        ("int32", "INT32", "int_contents", [-1, 2**31 - 1]),
        ("int64", "INT64", "int64_contents", [-(2**63), 7]),
        ("uint8", "UINT8", "uint_contents", [0, 255]),
        ("uint16", "UINT16", "uint_contents", [0, 65535]),
        ("uint32", "UINT32", "uint_contents", [0, 2**32 - 1]),
        ("uint64", "UINT64", "uint64_contents", [0, 2**64 - 1]),
        ("float32", "FP32", "fp32_contents", [0.5, -1.0]),
        ("float64", "FP64", "fp64_contents", [0.1, float("inf")]),
    ],
)
def test_typed_contents_become_the_models_dtype(dtype: str, datatype: str, field: str, values: list[Any]) -> None:
    decoded = decode(request(datatype, [2], **{field: values}), spec(dtype))
    np.testing.assert_array_equal(decoded.tensors["x"], np.array(values, dtype=dtype), strict=True)


def test_text_comes_typed_or_raw() -> None:
    typed = decode(request("BYTES", [2], bytes_contents=["é".encode(), b""]), spec("string"))
    raw = decode(request("BYTES", [2], b"\x02\x00\x00\x00\xc3\xa9\x00\x00\x00\x00"), spec("string"))
    assert typed.tensors["x"].tolist() == raw.tensors["x"].tolist() == ["é", ""]


def test_rank_0_and_empty_tensors_have_their_shapes() -> None:
    assert decode(request("FP32", [], fp32_contents=[1.5]), spec("float32", ())).tensors["x"].shape == ()
    assert decode(request("FP32", [], b"\0\0\0\0"), spec("float32", ())).tensors["x"].shape == ()
    assert decode(request("FP32", [0, 2]), X).tensors["x"].shape == (0, 2)
    assert decode(request("FP32", [0, 2], b""), X).tensors["x"].shape == (0, 2)


def test_a_model_without_inputs_gets_none() -> None:
    assert decode(ModelInferRequest(model_name="m"), ()).tensors == {}


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (request("FP32", [1, 2], b"1234"), errors.DataSizeError, "binary_data_size is 4"),
        (request("FP32", [1, 3], b"1" * 12), errors.ShapeError, r"the model takes \[N, 2\]"),
        (request("FP64", [1, 2], b"1" * 16), errors.DatatypeError, "the model takes FP32"),
        (request("FP32", [1, 2], fp32_contents=[1]), errors.DataSizeError, "has 1 elements"),
        (request("FP32", [1, 2], fp64_contents=[1, 2]), errors.DataSizeError, "belongs in fp32_contents, found fp64"),
        (request("FP32", [1, 2], b"1" * 8, fp32_contents=[1]), errors.DataSizeError, "although the request has raw"),
        (request("FP32", [1, 2]), errors.DataSizeError, "has 0 elements"),
        (ModelInferRequest(raw_input_contents=[b"1"]), errors.MissingInputError, "needs the input 'x'"),
    ],
)
def test_what_does_not_fit_is_refused(message: ModelInferRequest, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        decode(message, X)


def test_the_size_of_raw_contents_is_seen_without_reading_them() -> None:
    message = request("FP32", [1, 100], b"1" * 400)
    message.raw_input_contents.append(b"22")
    assert num_raw_bytes(message.SerializeToString()) == 402
    assert num_raw_bytes(request("FP32", [1, 2], fp32_contents=[1, 2]).SerializeToString()) == 0
    for wrong in (b"\xff\xff", b"\x38\x05", b"\x3a"):
        assert num_raw_bytes(wrong) == 0


def test_more_raw_contents_than_inputs_are_refused() -> None:
    message = request("FP32", [1, 2], b"1" * 8)
    message.raw_input_contents.append(b"")
    with pytest.raises(errors.DataSizeError, match="2 entries for 1 inputs"):
        decode(message, X)


def test_values_out_of_range_are_named() -> None:
    with pytest.raises(errors.DataValueError, match="300 is out of range for UINT8"):
        decode(request("UINT8", [1], uint_contents=[300]), spec("uint8"))
    with pytest.raises(errors.DataValueError, match="BYTES element 0 is not UTF-8"):
        decode(request("BYTES", [1], bytes_contents=[b"\xff"]), spec("string"))


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_types_without_a_typed_form_say_so(datatype: str) -> None:
    inputs = spec({"FP16": "float16", "BF16": "bfloat16"}[datatype])
    with pytest.raises(errors.UnsupportedFeatureError, match="use raw_input_contents"):
        decode(request(datatype, [1], fp32_contents=[1]), inputs)
    assert decode(request(datatype, [1], b"\0\0"), inputs).tensors["x"].shape == (1,)


def test_limits_hold_for_the_message_and_for_typed_contents() -> None:
    limits = RequestLimits(max_body_bytes=1000, max_json_bytes=100)
    assert decode(request("FP32", [20, 2], b"1" * 160), X, limits).tensors
    with pytest.raises(errors.TypedContentsTooLargeError, match="raw_input_contents"):
        decode(request("FP32", [20, 2], fp32_contents=[1.0] * 40), X, limits)
    with pytest.raises(errors.BodyTooLargeError):
        decode(request("FP32", [200, 2], b"1" * 1600), X, limits)


def test_parameters_are_plain_values() -> None:
    message = request("FP32", [1, 2], b"1" * 8)
    message.parameters["priority"].uint64_param = 2
    message.parameters["timeout"].int64_param = 5000
    message.parameters["mine"].string_param = "kept"
    message.parameters["none"].SetInParent()
    decoded = decode(message, X)
    assert (decoded.priority, decoded.timeout_us, decoded.parameters) == (2, 5000, {"mine": "kept"})
    message.parameters["timeout"].string_param = "soon"
    with pytest.raises(errors.ParameterError):
        decode(message, X)


def test_unsupported_extensions_are_named() -> None:
    message = request("FP32", [1, 2])
    message.inputs[0].parameters["shared_memory_region"].string_param = "region"
    with pytest.raises(errors.UnsupportedFeatureError, match="no shared_memory_region"):
        decode(message, X)


def test_responses_carry_raw_contents_in_the_order_asked_for() -> None:
    outputs = {
        "a": np.array([[1.5]], dtype=ml_dtypes.bfloat16),
        "b": np.array(["é"], dtype=object),
        "c": np.asfortranarray(np.arange(4, dtype=np.int64).reshape(2, 2)),
    }
    requested = tuple(RequestedOutput(name=name, binary=False) for name in "cab")
    response = ModelInferResponse.FromString(encode_model_infer("m", "1", "r", outputs, requested))
    assert (response.model_name, response.model_version, response.id) == ("m", "1", "r")
    assert [(each.name, each.datatype, list(each.shape)) for each in response.outputs] == [
        ("c", "INT64", [2, 2]),
        ("a", "BF16", [1, 1]),
        ("b", "BYTES", [1]),
    ]
    assert list(response.raw_output_contents) == [
        np.arange(4, dtype=np.int64).tobytes(),
        outputs["a"].tobytes(),
        b"\x02\x00\x00\x00\xc3\xa9",
    ]


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_protocol_errors(message: bytes) -> None:
    with contextlib.suppress(errors.ProtocolError):
        decode_model_infer(message, X, OUTPUTS, RequestLimits())


@given(st.binary(max_size=80), st.integers(0, 200))
def test_damaged_messages_raise_nothing_but_protocol_errors(noise: bytes, place: int) -> None:
    good = request("FP32", [1, 2], b"12345678").SerializeToString()
    message = good[:place] + noise + good[place + len(noise) :]
    with contextlib.suppress(errors.ProtocolError):
        decode_model_infer(message, X, OUTPUTS, RequestLimits())
