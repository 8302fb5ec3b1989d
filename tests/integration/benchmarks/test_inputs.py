"""Prepared requests are what the codec of the server reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.load.errors import LoadError
from benchmarks.load.inputs import picture, picture_model, prepare_arrays, prepare_requests
from serve_app.protocol import RequestLimits, decode_infer_request
from split_tool.plan import TensorSpec


def metadata(*inputs: tuple[str, str, list[int]]) -> dict[str, Any]:
    return {"inputs": [{"name": name, "datatype": datatype, "shape": shape} for name, datatype, shape in inputs]}


def test_the_picture_is_normalised_and_has_the_models_size() -> None:
    for height, width in ((224, 224), (64, 320), (700, 700)):
        pixels = picture(height=height, width=width)
        assert pixels.shape == (1, 3, height, width)
        assert pixels.dtype == np.float32
        assert -2.2 < pixels.min() < pixels.max() < 2.7


def test_the_first_model_that_can_take_a_picture_gets_one_and_seeds_decide_the_rest() -> None:
    answers = {
        "ids": metadata(("ids", "INT64", [1, -1]), ("text", "BYTES", [2])),
        "vision": metadata(("image", "FP32", [-1, 3, 224, 224])),
        "other": metadata(("image", "FP32", [1, 3, 64, 64])),
    }
    requests = prepare_requests(prepare_arrays(answers, seed=1))
    assert picture_model(answers) == "vision"
    assert requests == prepare_requests(prepare_arrays(answers, seed=1))
    others = prepare_requests(prepare_arrays(answers, seed=2))
    assert requests["other"] != others["other"]
    assert requests["vision"] == others["vision"]


def test_the_server_reads_what_was_prepared() -> None:
    answers = {"m": metadata(("ids", "INT64", [-1, -1]), ("text", "BYTES", [2]))}
    request = prepare_requests(prepare_arrays(answers, seed=1))["m"]
    specs = (
        TensorSpec(name="ids", dtype="int64", shape=("N", None)),
        TensorSpec(name="text", dtype="string", shape=(2,)),
    )
    outputs = (TensorSpec(name="y", dtype="float32", shape=None),)
    decoded = decode_infer_request(request.body, request.header_length, specs, outputs, RequestLimits())
    assert decoded.tensors["ids"].shape == (1, 16)
    assert decoded.tensors["text"].tolist() == ["text", "text"]
    assert decoded.requested_outputs[0].binary


def test_a_datatype_that_the_protocol_lacks_is_named() -> None:
    with pytest.raises(LoadError, match="'x' has the datatype float8e5m2"):
        prepare_arrays({"m": metadata(("x", "float8e5m2", [1]))}, seed=0)
