"""Encoding of inference responses."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from serve_app.protocol import EncodedResponse, RequestedOutput, encode_infer_response, errors


def encode(array: Any, *, binary: bool, request_id: str | None = None) -> EncodedResponse:
    return encode_infer_response("m", "1", request_id, {"y": array}, (RequestedOutput(name="y", binary=binary),))


def test_a_json_response_is_one_json_object_with_flat_data() -> None:
    response = encode(np.array([[1, 2], [3, 4]], dtype=np.int64), binary=False, request_id="r")
    assert response.content_type == "application/json"
    assert response.header_length is None
    assert response.headers == {"Content-Type": "application/json"}
    assert json.loads(response.body) == {
        "model_name": "m",
        "model_version": "1",
        "id": "r",
        "outputs": [{"name": "y", "datatype": "INT64", "shape": [2, 2], "data": [1, 2, 3, 4]}],
    }


def test_a_binary_response_is_json_followed_by_the_bytes() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    response = encode(array, binary=True)
    assert response.content_type == "application/octet-stream"
    assert response.header_length is not None
    assert response.headers["Inference-Header-Content-Length"] == str(response.header_length)
    header = json.loads(response.body[: response.header_length])
    assert "id" not in header
    assert header["outputs"] == [
        {"name": "y", "datatype": "FP32", "shape": [2, 3], "parameters": {"binary_data_size": 24}}
    ]
    assert response.body[response.header_length :] == array.tobytes()


def test_outputs_come_in_the_order_asked_for_each_in_its_form() -> None:
    outputs = {name: np.array([index], dtype=np.uint8) for index, name in enumerate("abc")}
    requested = tuple(RequestedOutput(name=name, binary=name != "a") for name in "cab")
    response = encode_infer_response("m", "1", None, outputs, requested)
    entries = json.loads(response.body[: response.header_length])["outputs"]
    assert [entry["name"] for entry in entries] == ["c", "a", "b"]
    assert entries[1]["data"] == [0]
    assert response.body.endswith(b"\x02\x01")


def test_arrays_in_another_memory_order_are_written_row_by_row() -> None:
    array = np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert json.loads(encode(array, binary=False).body)["outputs"][0]["data"] == [0, 1, 2, 3, 4, 5]
    assert encode(array, binary=True).body.endswith(np.arange(6, dtype=np.int32).tobytes())


def test_nan_and_infinity_are_written_as_triton_writes_them() -> None:
    for dtype in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16):
        array = np.array([np.nan, np.inf, -np.inf, 0.5], dtype=dtype)
        assert b'"data":[NaN, Infinity, -Infinity, 0.5]' in encode(array, binary=False).body


def test_text_may_be_str_bytes_or_fixed_width() -> None:
    for array in (np.array(["é", ""], dtype=object), np.array(["é".encode(), b""], dtype=object), np.array(["é", ""])):
        assert json.loads(encode(array, binary=False).body)["outputs"][0]["data"] == ["é", ""]
        assert encode(array, binary=True).body.endswith(b"\x02\x00\x00\x00\xc3\xa9\x00\x00\x00\x00")


def test_bytes_that_are_no_text_need_the_binary_form() -> None:
    array = np.array([b"\xff"], dtype=object)
    assert encode(array, binary=True).body.endswith(b"\x01\x00\x00\x00\xff")
    with pytest.raises(errors.UnencodableOutputError, match="ask for it in binary form"):
        encode(array, binary=False)


def test_outputs_that_the_protocol_cannot_carry_are_named() -> None:
    with pytest.raises(errors.UnencodableOutputError, match="'y' is a list"):
        encode([np.zeros(1)], binary=True)
    with pytest.raises(errors.UnencodableOutputError, match="'y' is of type complex64"):
        encode(np.zeros(1, dtype=np.complex64), binary=True)
