"""Metadata answers."""

from __future__ import annotations

import json

from serve_app.protocol import encode_json, model_metadata, server_metadata
from split_tool.plan import Block, MeasuredOn, Proof, SplitPlan, TensorSpec

BLOCK = Block(file="block_0.onnx", sha256="", inputs=("x",), outputs=("y",), num_nodes=1, time_ms=2.5, file_bytes=1)
PLAN = SplitPlan(
    schema_version=1,
    model="m",
    source_sha256="",
    inputs=(
        TensorSpec(name="x", dtype="float32", shape=("N", None, 3)),
        TensorSpec(name="s", dtype="string", shape=()),
    ),
    outputs=(TensorSpec(name="y", dtype="float8e5m2", shape=None),),
    graph="user",
    isolated_ms=2.5,
    chain_ms=2.5,
    blocks=(BLOCK,),
    cuts=(),
    measured_on=MeasuredOn(
        provider="p", runtime="r", num_threads=1, processor="c", processor_features=(), system="s", measured_at="t"
    ),
    proof=Proof(
        verdict="bit-identical",
        num_samples=1,
        seed=0,
        max_abs_difference=0.0,
        max_rel_difference=0.0,
        tolerances=(),
        cause=None,
    ),
)


def test_the_server_says_its_name_version_and_extensions() -> None:
    assert json.loads(encode_json(server_metadata("0.1.0"))) == {
        "name": "dlir-serve",
        "version": "0.1.0",
        "extensions": ["binary_tensor_data"],
    }


def test_dynamic_axes_are_minus_one_and_types_are_the_protocols() -> None:
    assert json.loads(encode_json(model_metadata(PLAN, name="served", versions=("1",)))) == {
        "name": "served",
        "versions": ["1"],
        "platform": "onnxruntime_onnx",
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [-1, -1, 3]},
            {"name": "s", "datatype": "BYTES", "shape": []},
        ],
        "outputs": [{"name": "y", "datatype": "float8e5m2", "shape": []}],
        "parameters": {"isolated_ms": 2.5, "num_blocks": 1},
    }
