"""Every datatype and every odd shape from the body of a request through real blocks to the body of the answer."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from ray import serve

from deployments.runtime.backends.onnx_sessions import BlockChain
from deployments.runtime.block_groups import BlockGroup, check_groups, group_plan
from deployments.runtime.errors import DataRefusedError, LayoutRefusedError
from deployments.runtime.settings import DeviceSettings
from serve_app.app import model
from serve_app.model_ingress import check_servable
from serve_app.protocol import RequestLimits, decode_infer_request, encode_infer_response
from serve_app.protocol.datatypes import DATATYPES
from serve_app.protocol.errors import UnsupportedFeatureError
from serve_app.protocol.grpc_codec import decode_model_infer, encode_model_infer
from serve_app.protocol.inference_pb2 import ModelInferRequest, ModelInferResponse
from serve_app.sections import ModelConfig
from split_tool.__main__ import main
from split_tool.inputs import load_samples
from split_tool.plan import SplitPlan
from tests.http_request import binary_request, json_request, read_answer

HARD = Path(__file__).parents[2] / "data" / "hard"
CARRIED = (
    "08_input_is_output",
    "09_initializer_is_output",
    "10_duplicate_output_name",
    "11_optional_empty_names",
    "15_data_dependent_and_empty",
    "28_sequence_crosses_cut",
    "29_optional_crosses_cut",
    "30_string_tensors",
    "31_bfloat16_crosses_cut",
    "32_float16_crosses_cut",
    "43_no_inputs",
    "44_unused_input_and_dead_nodes",
    "57_optional_graph_input",
)
REFUSED_IN_GROUPS = ("28_sequence_crosses_cut", "29_optional_crosses_cut", "57_optional_graph_input")
Split = Callable[[str], Path]
Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """Splits a hard model into up to three blocks, once; gives the plan's folder."""
    repository = tmp_path_factory.mktemp("hard")

    def split_model(name: str) -> Path:
        folder = repository / name
        if not folder.exists():
            arguments = ["split", str(HARD / f"{name}.onnx"), "--out", str(folder), "--blocks", "3"]
            samples = HARD / f"{name}.inputs.npz"
            if samples.exists():
                arguments += ["--samples-from", str(samples)]
            assert main(arguments) == 0
        return folder

    return split_model


def data_sets(name: str) -> list[tuple[Arrays, list[np.ndarray]]]:
    """The stored inputs by name, and the outputs in order."""
    sets = []
    for which in ("", "2"):
        outputs, inputs = (HARD / f"{name}.{side}{which}.npz" for side in ("outputs", "inputs"))
        if outputs.exists():
            stored = load_samples(outputs)
            given = load_samples(inputs) if inputs.exists() else {}
            sets.append((given, [stored[str(index)] for index in range(len(stored))]))
    return sets


def run_chain(chain: BlockChain, inputs: Arrays) -> Arrays:
    values = chain.start(inputs)
    for block in range(chain.num_blocks):
        chain.run_block(block, values)
    return chain.finish(values)


def over_http(plan: SplitPlan, chain: BlockChain, request: dict[str, Any]) -> list[tuple[str, np.ndarray]]:
    length = request["headers"].get("Inference-Header-Content-Length")
    header_length = None if length is None else int(length)
    wanted = decode_infer_request(request["content"], header_length, plan.inputs, plan.outputs, RequestLimits())
    outputs = run_chain(chain, wanted.tensors)
    answer = encode_infer_response("m", "1", None, outputs, wanted.requested_outputs)
    return read_answer(answer.body, answer.header_length)


def over_grpc(plan: SplitPlan, chain: BlockChain, inputs: Arrays) -> list[tuple[str, np.ndarray]]:
    """By way of the same bytes as over HTTP, which are the raw contents of gRPC."""
    wanted = decode_model_infer(grpc_request(inputs), plan.inputs, plan.outputs, RequestLimits())
    outputs = run_chain(chain, wanted.tensors)
    answer = ModelInferResponse.FromString(encode_model_infer("m", "1", None, outputs, wanted.requested_outputs))
    header = [
        {
            "name": each.name,
            "datatype": each.datatype,
            "shape": list(each.shape),
            "parameters": {"binary_data_size": len(raw)},
        }
        for each, raw in zip(answer.outputs, answer.raw_output_contents, strict=True)
    ]
    encoded = json.dumps({"outputs": header}).encode()
    return read_answer(encoded + b"".join(answer.raw_output_contents), len(encoded))


def grpc_request(inputs: Arrays) -> bytes:
    message = ModelInferRequest(model_name="m")
    body = binary_request(inputs)
    length = int(body["headers"]["Inference-Header-Content-Length"])
    rest = body["content"][length:]
    for entry in json.loads(body["content"][:length])["inputs"]:
        message.inputs.add(name=entry["name"], datatype=entry["datatype"], shape=entry["shape"])
        size = entry["parameters"]["binary_data_size"]
        message.raw_input_contents.append(rest[:size])
        rest = rest[size:]
    encoded: bytes = message.SerializeToString()
    return encoded


def check_equal(outputs: list[tuple[str, np.ndarray]], plan: SplitPlan, expected: list[np.ndarray]) -> None:
    assert [name for name, _ in outputs] == [spec.name for spec in plan.outputs]
    for (name, array), stored in zip(outputs, expected, strict=True):
        assert array.shape == stored.shape, name
        if array.dtype.kind in "biuO":
            np.testing.assert_array_equal(array, stored)
        else:
            np.testing.assert_allclose(array.astype(np.float64), stored, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", CARRIED)
def test_a_hard_model_answers_with_its_stored_outputs_in_every_form(name: str, split: Split) -> None:
    folder = split(name)
    plan = SplitPlan.load(folder)
    check_servable(plan)
    chain = BlockChain(plan, folder, DeviceSettings(), is_split=True)
    for _ in range(3):  # the first request allocates what later ones reuse
        for inputs, expected in data_sets(name):
            check_equal(over_http(plan, chain, binary_request(inputs)), plan, expected)
            check_equal(over_http(plan, chain, json_request(inputs)), plan, expected)
            check_equal(over_grpc(plan, chain, inputs), plan, expected)


@pytest.mark.parametrize("name", [*CARRIED, "33_int4_crosses_cut", "34_float8_crosses_cut"])
def test_blocks_that_get_their_values_as_bytes_give_the_same_bits_or_are_refused(
    name: str, split: Split, tmp_path: Path
) -> None:
    folder = split(name)
    plan = SplitPlan.load(folder)
    device = DeviceSettings()
    groups = [BlockGroup(first_block=i, end_block=i + 1, device=device) for i in range(len(plan.blocks))]
    if name in REFUSED_IN_GROUPS:
        with pytest.raises(LayoutRefusedError, match="only tensors can be sent"):
            check_groups(plan, groups)
        return
    check_groups(plan, groups)
    chains = []
    for index, group in enumerate(groups):  # each in a folder with the files of its own blocks
        own = group_plan(plan, group)
        shutil.copytree(
            folder, tmp_path / str(index), ignore=lambda _folder, names: [n for n in names if n == "blocks"]
        )
        for block in own.blocks:
            target = tmp_path / str(index) / block.file
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(folder / block.file, target)
        own.check_files(tmp_path / str(index))
        chains.append(BlockChain(own, tmp_path / str(index), device, is_split=True))
    fused = BlockChain(plan, folder, device, is_split=True)
    for inputs, _ in data_sets(name) * 2:
        expected = run_chain(fused, inputs)
        values = inputs
        for chain in chains:
            buffers: list[pickle.PickleBuffer] = []
            sent = pickle.dumps(run_chain(chain, values), protocol=5, buffer_callback=buffers.append)
            values = pickle.loads(sent, buffers=[bytes(buffer.raw()) for buffer in buffers])  # read-only, as Ray's are
        assert list(values) == list(expected)
        for output, array in expected.items():
            assert (values[output].dtype, values[output].shape) == (array.dtype, array.shape)
            assert (
                values[output].tolist() == array.tolist()
                if array.dtype == object
                else (values[output].tobytes() == array.tobytes())
            )


def test_values_out_of_range_are_an_invalid_argument_and_leave_nothing_behind(split: Split) -> None:
    folder = split("45_tied_weights")
    chain = BlockChain(SplitPlan.load(folder), folder, DeviceSettings(), is_split=True)
    ((good, (expected,)), *_) = data_sets("45_tied_weights")
    for _ in range(3):
        with pytest.raises(DataRefusedError, match="indices element out of data bounds, idx=999999"):
            run_chain(chain, {"ids": np.array([[1, 999_999]])})
        np.testing.assert_allclose(run_chain(chain, good)["y"], expected, rtol=1e-5, atol=1e-5)


def test_a_model_that_takes_sequences_is_refused_in_one_sentence(split: Split) -> None:
    plan = SplitPlan.load(split("58_sequence_graph_io"))
    with pytest.raises(UnsupportedFeatureError, match="input 'seq' of the model is a sequence; the protocol carries"):
        check_servable(plan)


@pytest.mark.parametrize("datatype", DATATYPES, ids=lambda datatype: datatype.name)
def test_every_datatype_comes_back_as_it_went_in_at_every_rank(datatype: Any, tmp_path: Path) -> None:
    number = getattr(
        TensorProto, {"float32": "FLOAT", "float64": "DOUBLE"}.get(datatype.onnx_name, datatype.onnx_name.upper())
    )
    sides = [helper.make_tensor_value_info(name, number, None) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", sides[:1], sides[1:])
    path = tmp_path / "same.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    assert main(["split", str(path), "--out", str(tmp_path / "plan"), "--blocks", "1", "--input", "x=3"]) == 0
    plan = SplitPlan.load(tmp_path / "plan")
    chain = BlockChain(plan, tmp_path / "plan", DeviceSettings(), is_split=True)
    three = np.array(["é", "", "z"], object) if datatype.family == "bytes" else np.array([0, 1, 1], datatype.dtype)
    for array in (three, three.reshape(1, 3, 1), three[:1].reshape(()), three[:0].reshape(0, 2)):
        for outputs in (
            over_http(plan, chain, binary_request({"x": array})),
            over_http(plan, chain, json_request({"x": array})),
            over_grpc(plan, chain, {"x": array}),
        ):
            ((name, answer),) = outputs
            assert (name, answer.dtype, answer.shape) == ("y", datatype.dtype, array.shape)
            np.testing.assert_array_equal(answer, array)


@pytest.mark.parametrize("name", ["15_data_dependent_and_empty", "30_string_tensors", "57_optional_graph_input"])
def test_a_hard_model_is_served(name: str, split: Split, cluster: int) -> None:
    folder = split(name)
    config = ModelConfig(model=name, repository=str(folder.parent), device={"index": 7})
    serve.run(model(config), name=name, route_prefix=f"/{name}")
    try:
        for inputs, expected in data_sets(name):
            answer = httpx.post(f"http://127.0.0.1:{cluster}/{name}/infer", **binary_request(inputs))
            assert answer.status_code == 200, answer.text
            length = int(answer.headers["Inference-Header-Content-Length"])
            check_equal(read_answer(answer.content, length), SplitPlan.load(folder), expected)
    finally:
        serve.delete(name)


def test_values_that_the_model_cannot_take_are_the_clients_fault(split: Split, cluster: int) -> None:
    name = "45_tied_weights"
    config = ModelConfig(model=name, repository=str(split(name).parent), device={"index": 7})
    serve.run(model(config), name=name, route_prefix=f"/{name}")
    try:
        request = binary_request({"ids": np.array([[1, 999_999]])})
        answer = httpx.post(f"http://127.0.0.1:{cluster}/{name}/infer", **request)
        assert answer.status_code == 400
        assert "indices element out of data bounds, idx=999999" in answer.json()["error"]
        good = httpx.post(f"http://127.0.0.1:{cluster}/{name}/infer", **binary_request({"ids": np.array([[1, 2]])}))
        assert good.status_code == 200
    finally:
        serve.delete(name)


def test_a_model_that_cannot_be_served_does_not_start_and_says_why(split: Split, cluster: int) -> None:
    name = "58_sequence_graph_io"
    config = ModelConfig(model=name, repository=str(split(name).parent), device={"index": 7})
    with pytest.raises(RuntimeError, match=f"Deploying application {name} failed"):
        serve.run(model(config), name=name, route_prefix=f"/{name}")
    message = serve.status().applications[name].deployments["SplitModel"].message
    assert "input 'seq' of the model is a sequence; the protocol carries tensors only" in message
    serve.delete(name)
