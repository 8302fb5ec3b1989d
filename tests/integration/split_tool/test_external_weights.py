"""Weights beside the model file, in one file or in many, small here and over 2 GB elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.external_data_helper import set_external_data

import split_tool
from split_tool.chain import Chain, feeds_to_ort
from split_tool.checking import verify_folder
from split_tool.extract import write_block
from split_tool.model_graph import cut_graph
from split_tool.plan import SplitPlan
from split_tool.profile import probe
from split_tool.proving import compare
from split_tool.sessions import Device, open_session, session_options, user_target
from split_tool.source import read_source, tensors_of
from tests.integration.split_tool.tiny_models import model, perceptron, value, weight

X = {"x": np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)}


def save_with_weights_beside(made: ModelProto, folder: Path, *, num_files: int) -> Path:
    """Write the model, and its weights in turn into files of the folder ``weights``."""
    (folder / "weights").mkdir(parents=True)
    for index, tensor in enumerate(made.graph.initializer):
        name = f"weights/{index % num_files}.bin"
        with (folder / name).open("ab") as file:
            offset = file.tell()
            file.write(tensor.raw_data)
        set_external_data(tensor, name, offset=offset, length=len(tensor.raw_data))
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    return folder / "m.onnx"


def write_halves(file: Path, work: Path) -> list[Path]:
    """The model in two blocks that keep their weights beside them, as blocks over the limit do."""
    source = read_source(file)
    target, graph = user_target(source), cut_graph(source.model)
    probed = probe(target, graph, feeds_to_ort(X, source.inputs), Device())
    middle = graph.num_steps // 2
    blocks = [work / "00.onnx", work / "01.onnx"]
    for path, ends in zip(blocks, ((0, middle), (middle, graph.num_steps)), strict=True):
        write_block(target, graph.block(*ends), probed.types, path, max_embedded_bytes=100)
    return blocks


@pytest.mark.parametrize("num_files", [1, 3])
def test_blocks_over_the_limit_keep_their_weights_beside_them(tmp_path: Path, num_files: int) -> None:
    file = save_with_weights_beside(perceptron(4), tmp_path / "model", num_files=num_files)
    blocks = write_halves(file, tmp_path)
    for block in blocks:
        stored = [t for t in tensors_of(onnx.load(block, load_external_data=False)) if t.external_data]
        assert len(stored) == 2
        assert {entry.value for t in stored for entry in t.external_data if entry.key == "location"} == {
            block.name + ".data"
        }
    chain = Chain(blocks, Device(), is_optimised=False)
    got = chain.run(feeds_to_ort(X, read_source(file).inputs), ["y"])["y"].numpy()
    np.testing.assert_array_equal(got, ort.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, X)[0])


def test_a_plan_with_weights_in_many_files_can_be_moved(tmp_path: Path) -> None:
    file = save_with_weights_beside(perceptron(4), tmp_path / "model", num_files=3)
    split_tool.split(file, tmp_path / "plan", blocks=2, budget_s=0.01)
    file.parent.rename(tmp_path / "model-moved")
    moved = (tmp_path / "plan").rename(tmp_path / "plan-moved")
    assert [kept.path for kept in SplitPlan.load(moved).external_files] == [
        f"weights/{index}.bin" for index in range(3)
    ]
    assert verify_folder(moved, num_samples=1, seed=0).verdict == "bit-identical"


def test_blocks_that_draw_random_numbers_and_keep_weights_beside_them_are_proved(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("RandomNormalLike", ["a"], ["noise"]),
        helper.make_node("Add", ["a", "noise"], ["b"]),
        helper.make_node("MatMul", ["b", "w1"], ["y"]),
    ]
    made = model(nodes, [value("x")], [value("y")], [weight("w0", 8, 8), weight("w1", 8, 8)])
    source = read_source(save_with_weights_beside(made, tmp_path / "model", num_files=1))
    whole = open_session(source.path, Device(), session_options(Device(), optimise=True))
    blocks = write_halves(source.path, tmp_path)
    proof = compare(source, whole, blocks, Device(), [X], seed=0, is_optimised=False)
    assert proof.verdict == "bit-identical"
