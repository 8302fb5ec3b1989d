"""Decoding of inference requests: what is accepted, and what each refusal says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from serve_app.protocol import InferRequest, RequestedOutput, RequestLimits, decode_infer_request, errors
from split_tool.plan import TensorSpec

LIMITS = RequestLimits(max_body_bytes=1_000_000, max_json_bytes=100_000)
IMAGE = TensorSpec(name="image", dtype="float32", shape=("N", 2, 3))
OUTPUTS = (
    TensorSpec(name="scores", dtype="float32", shape=("N", 10)),
    TensorSpec(name="boxes", dtype="int64", shape=(None, 4)),
)


def spec(dtype: str, shape: tuple[int | str | None, ...] | None = ("N",), name: str = "x") -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=shape)


def decode(
    request: dict[str, Any] | str | bytes,
    inputs: Sequence[TensorSpec] = (IMAGE,),
    *,
    binary: bytes | None = None,
    outputs: Sequence[TensorSpec] = OUTPUTS,
) -> InferRequest:
    text = (
        request
        if isinstance(request, bytes)
        else (request if isinstance(request, str) else json.dumps(request)).encode()
    )
    length = None if binary is None else len(text)
    return decode_infer_request(text + (binary or b""), length, tuple(inputs), tuple(outputs), LIMITS)


def one(datatype: str, shape: list[int], data: Any, *, name: str = "x", **rest: Any) -> dict[str, Any]:
    return {"inputs": [{"name": name, "datatype": datatype, "shape": shape, "data": data}], **rest}


def one_binary(datatype: str, shape: list[int], size_bytes: Any, *, name: str = "x", **rest: Any) -> dict[str, Any]:
    entry = {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": size_bytes}}
    return {"inputs": [entry], **rest}


IMAGE_JSON = one("FP32", [1, 2, 3], [1, 2, 3, 4, 5, 6], name="image")


@pytest.mark.parametrize("data", [[1, 2.5, 3, 4, 5, 6], [[[1, 2.5, 3], [4, 5, 6]]]])
def test_json_data_may_be_flat_or_nested_like_the_shape(data: Any) -> None:
    request = decode(one("FP32", [1, 2, 3], data, name="image"))
    array = request.tensors["image"]
    assert array.dtype == np.float32
    assert array.tolist() == [[[1, 2.5, 3], [4, 5, 6]]]


def test_binary_data_becomes_a_view_on_the_body() -> None:
    array = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    text = json.dumps(one_binary("FP32", [1, 2, 3], 24, name="image")).encode()
    body = text + array.tobytes()
    decoded = decode_infer_request(body, len(text), (IMAGE,), OUTPUTS, LIMITS).tensors["image"]
    assert np.shares_memory(decoded, np.frombuffer(body, dtype=np.uint8))
    assert not decoded.flags.writeable
    np.testing.assert_array_equal(decoded, array)


def test_a_memoryview_serves_as_body() -> None:
    body = memoryview(json.dumps(IMAGE_JSON).encode())
    assert decode_infer_request(body, None, (IMAGE,), OUTPUTS, LIMITS).tensors["image"].shape == (1, 2, 3)


def test_binary_and_json_inputs_mix_in_one_request_in_the_order_of_the_json() -> None:
    inputs = [spec("int32", ("N",), "a"), spec("float32", ("N",), "b"), spec("string", ("N",), "c")]
    request = {
        "inputs": [
            {"name": "c", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 6}},
            {"name": "b", "datatype": "FP32", "shape": [2], "data": [0.5, 1]},
            {"name": "a", "datatype": "INT32", "shape": [1], "parameters": {"binary_data_size": 4}},
        ]
    }
    binary = b"\x02\x00\x00\x00hi" + np.array([-7], dtype=np.int32).tobytes()
    tensors = decode(request, inputs, binary=binary).tensors
    assert tensors["a"].tolist() == [-7]
    assert tensors["b"].tolist() == [0.5, 1]
    assert tensors["c"].tolist() == ["hi"]


def test_id_priority_timeout_and_other_parameters_are_given_on() -> None:
    parameters = {"priority": 1, "timeout": 50_000, "binary_data_output": True, "mine": "yes"}
    request = decode(IMAGE_JSON | {"id": "r-1", "parameters": parameters})
    assert (request.request_id, request.priority, request.timeout_us) == ("r-1", 1, 50_000)
    assert request.parameters == {"mine": "yes"}


def test_absent_and_zero_priority_and_timeout_mean_the_default() -> None:
    for request in (decode(IMAGE_JSON), decode(IMAGE_JSON | {"parameters": {"priority": 0, "timeout": 0}})):
        assert (request.request_id, request.priority, request.timeout_us) == (None, None, None)


def test_without_requested_outputs_all_come_as_json() -> None:
    assert decode(IMAGE_JSON).requested_outputs == (
        RequestedOutput(name="scores", binary=False),
        RequestedOutput(name="boxes", binary=False),
    )


def test_binary_data_output_makes_all_outputs_binary_unless_an_output_says_otherwise() -> None:
    wish = {"parameters": {"binary_data_output": True}}
    assert all(output.binary for output in decode(IMAGE_JSON | wish).requested_outputs)
    outputs = [{"name": "boxes"}, {"name": "scores", "parameters": {"binary_data": False}}]
    assert decode(IMAGE_JSON | wish | {"outputs": outputs}).requested_outputs == (
        RequestedOutput(name="boxes", binary=True),
        RequestedOutput(name="scores", binary=False),
    )


def test_rank_zero_takes_a_list_of_one_or_a_bare_number() -> None:
    for data in ([3.5], 3.5):
        array = decode(one("FP64", [], data), [spec("float64", ())]).tensors["x"]
        assert array.shape == ()
        assert array == 3.5


@pytest.mark.parametrize(
    ("shape", "data"), [([0], []), ([2, 0], [[], []]), ([0, 2], []), ([1, 0, 3], [[]]), ([1, 0, 3], []), ([2, 0], [])]
)
def test_tensors_of_size_zero_pass(shape: list[int], data: Any) -> None:
    assert decode(one("FP32", shape, data), [spec("float32", None)]).tensors["x"].shape == tuple(shape)
    binary = decode(one_binary("FP32", shape, 0), [spec("float32", None)], binary=b"")
    assert binary.tensors["x"].shape == tuple(shape)


def test_a_model_without_inputs_takes_a_request_without_inputs() -> None:
    assert decode({"inputs": []}, []).tensors == {}
    assert decode({}, []).tensors == {}


def test_optional_inputs_may_be_absent() -> None:
    optional = TensorSpec(name="mask", dtype="bool", shape=("N",), kind="optional")
    assert set(decode(IMAGE_JSON, [IMAGE, optional]).tensors) == {"image"}


def test_nan_and_infinity_are_read_as_triton_writes_them() -> None:
    text = '{"inputs":[{"name":"x","datatype":"FP32","shape":[4],"data":[NaN,Infinity,-Infinity, 1]}]}'
    array = decode(text, [spec("float32")]).tensors["x"]
    np.testing.assert_array_equal(array, np.array([np.nan, np.inf, -np.inf, 1], dtype=np.float32))


def test_bool_takes_true_false_one_and_zero() -> None:
    assert decode(one("BOOL", [4], [True, False, 1, 0]), [spec("bool")]).tensors["x"].tolist() == [
        True,
        False,
        True,
        False,
    ]


def test_bfloat16_comes_as_ml_dtypes_arrays() -> None:
    array = decode(one("BF16", [2], [1.5, -2]), [spec("bfloat16")]).tensors["x"]
    assert array.dtype == ml_dtypes.bfloat16
    assert array.astype(np.float32).tolist() == [1.5, -2]


def test_unknown_keys_are_ignored() -> None:
    assert decode(IMAGE_JSON | {"later": {"versions": ["of", "the", "protocol"]}}).tensors


REFUSALS: list[tuple[str, Any, Any, type[errors.ProtocolError], str]] = [
    ("a body that is no JSON", "{", IMAGE, errors.MalformedRequestError, "not valid JSON"),
    ("an empty body", "", IMAGE, errors.MalformedRequestError, "not valid JSON"),
    ("a body that is not UTF-8", b'{"id":"\xff"}', IMAGE, errors.MalformedRequestError, "UTF-8"),
    ("JSON that is no object", "[1]", IMAGE, errors.MalformedRequestError, "Expected `object`, got `array`"),
    ("two JSON values", "{} {}", IMAGE, errors.MalformedRequestError, "trailing characters"),
    ("deeply nested JSON", '{"x":' + "[" * 50_000, IMAGE, errors.MalformedRequestError, "nested too deep"),
    ("deeply nested JSON with NaN", '{"x":NaN,"y":' + "[" * 50_000, IMAGE, errors.MalformedRequestError, "too deep"),
    (
        "deeply nested data",
        '{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":' + "[" * 200 + "]" * 200 + "}]}",
        spec("float32"),
        errors.ShapeError,
        "200 lists deep",
    ),
    ("an id that is no string", IMAGE_JSON | {"id": 7}, IMAGE, errors.MalformedRequestError, r"got `int` - at `\$.id`"),
    ("inputs that are no list", {"inputs": {}}, IMAGE, errors.MalformedRequestError, r"\$.inputs"),
    ("an input without a name", {"inputs": [{}]}, IMAGE, errors.MalformedRequestError, "missing required field `name`"),
    ("a shape of floats", one("FP32", [1.0], [1]), spec("float32"), errors.MalformedRequestError, r"shape\[0\]"),
    (
        "a parameter that is an object",
        IMAGE_JSON | {"parameters": {"a": {}}},
        IMAGE,
        errors.MalformedRequestError,
        "par",
    ),
    ("an unknown input", one("FP32", [1], [1], name="img"), IMAGE, errors.UnknownInputError, "no input 'img'.*'image'"),
    ("a missing input", {"inputs": []}, IMAGE, errors.MissingInputError, "needs the input 'image'"),
    (
        "an input given twice",
        {"inputs": IMAGE_JSON["inputs"] * 2},
        IMAGE,
        errors.DuplicateInputError,
        "'image' is there twice",
    ),
    (
        "an unknown datatype",
        one("float32", [1], [1]),
        spec("float32"),
        errors.DatatypeError,
        "unknown datatype 'float32'",
    ),
    (
        "another datatype",
        one("FP64", [1], [1]),
        spec("float32"),
        errors.DatatypeError,
        "'x' has datatype FP64.*takes FP32",
    ),
    (
        "another fixed axis",
        one("FP32", [1, 2, 4], [0] * 8, name="image"),
        IMAGE,
        errors.ShapeError,
        r"'image' has shape \[1, 2, 4\]; the model takes \[N, 2, 3\]",
    ),
    ("another rank", one("FP32", [6], [0] * 6, name="image"), IMAGE, errors.ShapeError, r"\[6\]; the model takes"),
    ("a negative axis", one("FP32", [-1], [1]), spec("float32"), errors.ShapeError, "no axis can be negative"),
    ("an impossible rank", one("FP32", [1] * 65, [1]), spec("float32", None), errors.ShapeError, "at most 64"),
    (
        "a huge shape",
        one("FP32", [2**40], [1]),
        spec("float32"),
        errors.DataSizeError,
        "1 elements.*needs 1099511627776",
    ),
    ("an unaddressable shape", one("FP32", [2**62], [1]), spec("float32"), errors.ShapeError, "no machine"),
    (
        "an unaddressable empty shape",
        one("FP32", [0, 2**62], []),
        spec("float32", None),
        errors.ShapeError,
        "no machine",
    ),
    ("an astronomic axis", one("FP32", [10**400], [1]), spec("float32"), errors.ShapeError, "a huge number"),
    ("too few elements", one("FP32", [3], [1, 2]), spec("float32"), errors.DataSizeError, "2 elements.*needs 3"),
    ("too many elements", one("FP32", [1], [1, 2]), spec("float32"), errors.DataSizeError, "2 elements.*needs 1"),
    (
        "ragged lists",
        one("FP32", [2, 2], [[1, 2], [3]]),
        spec("float32", None),
        errors.ShapeError,
        r"lists of \[1, 2\]",
    ),
    ("lists in the wrong order", one("FP32", [2, 1], [[1, 2]]), spec("float32", None), errors.ShapeError, "axis 0"),
    (
        "nesting unlike the rank",
        one("FP32", [1, 1, 1], [[1]]),
        spec("float32", None),
        errors.ShapeError,
        "2 lists deep",
    ),
    ("a string among numbers", one("FP32", [2], [1, "2"]), spec("float32"), errors.DataValueError, "must be numbers"),
    ("null among numbers", one("FP32", [2], [1, None]), spec("float32"), errors.DataValueError, "must be numbers"),
    ("data that is an object", one("FP32", [1], {"a": 1}), spec("float32"), errors.ShapeError, "0 lists deep"),
    ("a bool among integers", one("INT32", [1], [True]), spec("int32"), errors.DataValueError, "whole numbers"),
    ("a float among integers", one("INT32", [1], [1.5]), spec("int32"), errors.DataValueError, "whole numbers"),
    (
        "an integer out of range",
        one("UINT8", [2], [1, 256]),
        spec("uint8"),
        errors.DataValueError,
        "256 is out.*0 to 255",
    ),
    ("a negative unsigned", one("UINT64", [1], [-1]), spec("uint64"), errors.DataValueError, "-1 is out of range"),
    ("an astronomic integer", one("INT64", [1], [10**400]), spec("int64"), errors.DataValueError, "1329 bits"),
    (
        "a float out of range",
        one("FP16", [1], [70000]),
        spec("float16"),
        errors.DataValueError,
        "70000.0 is out of range",
    ),
    ("a float past FP32", one("FP32", [1], [1e39]), spec("float32"), errors.DataValueError, "out of range for FP32"),
    ("a float past BF16", one("BF16", [1], [3.4e38]), spec("bfloat16"), errors.DataValueError, "out of range for BF16"),
    ("two as a bool", one("BOOL", [1], [2]), spec("bool"), errors.DataValueError, "true, false, 1 or 0"),
    ("numbers as text", one("BYTES", [1], [2]), spec("string"), errors.DataValueError, "must be strings"),
    (
        "NaN as an integer",
        '{"inputs":[{"name":"x","datatype":"INT32","shape":[1],"data":[NaN]}]}',
        spec("int32"),
        errors.DataValueError,
        "whole numbers",
    ),
    (
        "an astronomic integer beside NaN",
        '{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data":[NaN,1' + "0" * 400 + "]}]}",
        spec("float32"),
        errors.DataValueError,
        "'x'",
    ),
    (
        "no data at all",
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}]},
        spec("float32"),
        errors.DataSizeError,
        "neither",
    ),
    (
        "shared memory",
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "parameters": {"shared_memory_region": "r"}}]},
        spec("float32"),
        errors.UnsupportedFeatureError,
        "shared_memory_region",
    ),
    (
        "a sequence id",
        IMAGE_JSON | {"parameters": {"sequence_id": 3}},
        IMAGE,
        errors.UnsupportedFeatureError,
        "sequence",
    ),
    ("a negative timeout", IMAGE_JSON | {"parameters": {"timeout": -1}}, IMAGE, errors.ParameterError, "timeout"),
    ("a bool as priority", IMAGE_JSON | {"parameters": {"priority": True}}, IMAGE, errors.ParameterError, "priority"),
    (
        "text as binary_data_output",
        IMAGE_JSON | {"parameters": {"binary_data_output": "yes"}},
        IMAGE,
        errors.ParameterError,
        "true or false",
    ),
    (
        "an unknown output",
        IMAGE_JSON | {"outputs": [{"name": "y"}]},
        IMAGE,
        errors.UnknownOutputError,
        "no output 'y'.*'scores'",
    ),
    (
        "an output asked for twice",
        IMAGE_JSON | {"outputs": [{"name": "boxes"}] * 2},
        IMAGE,
        errors.DuplicateOutputError,
        "boxes",
    ),
    (
        "classification",
        IMAGE_JSON | {"outputs": [{"name": "scores", "parameters": {"classification": 3}}]},
        IMAGE,
        errors.UnsupportedFeatureError,
        "classification",
    ),
    (
        "an input that is a sequence",
        one("FP32", [1], [1]),
        TensorSpec(name="x", dtype="float32", shape=None, kind="sequence"),
        errors.UnsupportedFeatureError,
        "is a sequence",
    ),
    (
        "an input of a foreign type",
        one("FP32", [1], [1]),
        spec("complex64"),
        errors.UnsupportedFeatureError,
        "complex64",
    ),
]


@pytest.mark.parametrize(
    ("request_", "model_input", "error", "message"),
    [pytest.param(*case[1:], id=case[0].replace(" ", "-")) for case in REFUSALS],
)
def test_refused(request_: Any, model_input: TensorSpec, error: type[errors.ProtocolError], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        decode(request_, [model_input])
    assert len(str(caught.value)) < 600


BINARY_REFUSALS: list[tuple[str, Any, bytes, TensorSpec, type[errors.ProtocolError], str]] = [
    (
        "a size unlike the shape",
        one_binary("FP32", [2], 4),
        b"1234",
        spec("float32"),
        errors.DataSizeError,
        "is 4,.*needs 8",
    ),
    (
        "a size past the body",
        one_binary("FP32", [2], 8),
        b"1234",
        spec("float32"),
        errors.DataSizeError,
        "is 8, but 4 bytes",
    ),
    (
        "bytes left over",
        one_binary("FP32", [1], 4),
        b"12345",
        spec("float32"),
        errors.DataSizeError,
        "1 bytes are left over",
    ),
    (
        "a negative size",
        one_binary("FP32", [1], -4),
        b"1234",
        spec("float32"),
        errors.ParameterError,
        "number of bytes",
    ),
    ("a size that is text", one_binary("FP32", [1], "4"), b"1234", spec("float32"), errors.ParameterError, "'4'"),
    ("a size that is a bool", one_binary("BOOL", [1], True), b"\1", spec("bool"), errors.ParameterError, "True"),
    ("a byte that is no bool", one_binary("BOOL", [2], 2), b"\1\2", spec("bool"), errors.DataValueError, "byte 2"),
    (
        "a huge count of strings",
        one_binary("BYTES", [2**40], 4),
        b"1234",
        spec("string"),
        errors.DataSizeError,
        "cannot hold",
    ),
    (
        "a string past the end",
        one_binary("BYTES", [1], 5),
        b"\4\0\0\0a",
        spec("string"),
        errors.DataSizeError,
        "claims 4",
    ),
    (
        "a string cut off",
        one_binary("BYTES", [2], 8),
        b"\4\0\0\0abcd",
        spec("string"),
        errors.DataSizeError,
        "after 1 of 2",
    ),
    (
        "strings left over",
        one_binary("BYTES", [1], 5),
        b"\0\0\0\0a",
        spec("string"),
        errors.DataSizeError,
        "1 bytes are left",
    ),
    (
        "text that is not UTF-8",
        one_binary("BYTES", [1], 5),
        b"\1\0\0\0\xff",
        spec("string"),
        errors.DataValueError,
        "UTF-8",
    ),
    (
        "data beside binary data",
        {"inputs": [one("FP32", [1], [1])["inputs"][0] | {"parameters": {"binary_data_size": 4}}]},
        b"1234",
        spec("float32"),
        errors.DataSizeError,
        "both",
    ),
]


@pytest.mark.parametrize(
    ("request_", "binary", "model_input", "error", "message"),
    [pytest.param(*case[1:], id=case[0].replace(" ", "-")) for case in BINARY_REFUSALS],
)
def test_refused_in_binary_form(
    request_: Any, binary: bytes, model_input: TensorSpec, error: type[errors.ProtocolError], message: str
) -> None:
    with pytest.raises(error, match=message):
        decode(request_, [model_input], binary=binary)


def test_binary_data_without_the_length_header_says_which_header_is_missing() -> None:
    with pytest.raises(errors.DataSizeError, match="Inference-Header-Content-Length"):
        decode(one_binary("FP32", [1], 4), [spec("float32")])


@pytest.mark.parametrize("length", [-1, 1000])
def test_a_header_length_past_the_body_is_refused(length: int) -> None:
    with pytest.raises(errors.HeaderLengthError, match=str(length)):
        decode_infer_request(b"{}", length, (), (), LIMITS)


def test_a_large_json_body_is_refused_with_the_advice_to_use_binary() -> None:
    with pytest.raises(errors.JsonTooLargeError, match="binary form"):
        decode(one("FP32", [1], [0] * 60_000, name="image"))


def test_the_json_limit_does_not_count_binary_data() -> None:
    array = np.zeros(50_000, dtype=np.float32)
    assert decode(one_binary("FP32", [50_000], array.nbytes), [spec("float32")], binary=array.tobytes()).tensors


def test_a_body_over_the_limit_is_refused() -> None:
    with pytest.raises(errors.BodyTooLargeError, match="at most 1000000"):
        decode_infer_request(bytes(1_000_001), 2, (IMAGE,), OUTPUTS, LIMITS)


def test_all_outputs_with_a_sequence_among_them_are_refused_but_the_tensors_can_be_named() -> None:
    outputs = (*OUTPUTS, TensorSpec(name="maps", dtype="float32", shape=None, kind="sequence"))
    with pytest.raises(errors.UnsupportedFeatureError, match="'maps'"):
        decode(IMAGE_JSON, outputs=outputs)
    assert decode(IMAGE_JSON | {"outputs": [{"name": "scores"}]}, outputs=outputs).requested_outputs
