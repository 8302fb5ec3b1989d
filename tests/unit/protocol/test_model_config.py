"""Configuration answers, and that they are what gRPC's message can hold."""

from __future__ import annotations

import json

import msgspec
from google.protobuf.json_format import ParseDict

from serve_app.protocol import encode_json
from serve_app.protocol.datatypes import DATATYPES
from serve_app.protocol.inference_pb2 import DataType, ModelConfig
from serve_app.protocol.model_config import model_config
from split_tool.plan import TensorSpec
from tests.unit.protocol.test_metadata import PLAN


def test_the_configuration_has_what_clients_of_triton_read() -> None:
    answer = json.loads(encode_json(model_config(PLAN, name="served", served={"mode": "slo"})))
    assert (answer["name"], answer["platform"], answer["backend"]) == ("served", "onnxruntime_onnx", "onnxruntime")
    assert answer["max_batch_size"] == 0
    assert answer["input"] == [
        {"name": "x", "data_type": "TYPE_FP32", "dims": [-1, -1, 3], "optional": False},
        {"name": "s", "data_type": "TYPE_STRING", "dims": [], "optional": False},
    ]
    assert answer["output"] == [{"name": "y", "data_type": "TYPE_INVALID", "dims": []}]
    assert answer["parameters"] == {
        "num_blocks": {"string_value": "1"},
        "isolated_ms": {"string_value": "2.5"},
        "mode": {"string_value": "slo"},
    }


def test_every_datatype_has_a_name_that_grpc_knows() -> None:
    specs = tuple(TensorSpec(name=each.name, dtype=each.onnx_name, shape=()) for each in DATATYPES)
    plan = msgspec.structs.replace(PLAN, inputs=specs)
    message = ParseDict(msgspec.to_builtins(model_config(plan, name="m", served={})), ModelConfig())
    named = {tensor.name: DataType.Name(tensor.data_type) for tensor in message.input}
    assert named == {each.name: "TYPE_STRING" if each.name == "BYTES" else f"TYPE_{each.name}" for each in DATATYPES}
