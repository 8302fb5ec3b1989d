"""Block chains with real ONNX Runtime sessions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import split_tool
from deployments.runtime.backends.crossing_memory import touched_memory
from deployments.runtime.backends.onnx_sessions import BlockChain, Values, memory_bytes
from deployments.runtime.loaded_model import NUM_WARM_UP_RUNS
from deployments.runtime.settings import DeviceSettings
from split_tool.plan import SplitPlan
from tests.models import random_input, whole_model_outputs


def run(chain: BlockChain, values: Values) -> dict[str, np.ndarray]:
    for block in range(chain.num_blocks):
        chain.run_block(block, values)
    return chain.finish(values)


@pytest.fixture(scope="module")
def chain(repository: Path) -> BlockChain:
    folder = repository / "squeezenet"
    return BlockChain(SplitPlan.load(folder), folder, DeviceSettings(), is_split=True)


def test_requests_that_are_interleaved_at_every_boundary_do_not_touch_each_other(chain: BlockChain) -> None:
    assert chain.num_blocks > 1
    for seed in (0, 10, 20):  # the first round allocates, the others reuse
        inputs = [random_input("squeezenet", seed + index) for index in range(3)]
        values = [chain.start(each) for each in inputs]
        for block in range(chain.num_blocks):
            for each in values:
                chain.run_block(block, each)
        for each, given in zip(values, inputs, strict=True):
            for name, expected in whole_model_outputs("squeezenet", given).items():
                np.testing.assert_array_equal(chain.finish(each)[name], expected, strict=True)


def test_outputs_already_given_out_are_not_overwritten_by_later_requests(chain: BlockChain) -> None:
    first = run(chain, chain.start(random_input("squeezenet", 1)))
    kept = {name: array.copy() for name, array in first.items()}
    for seed in range(2, 6):
        run(chain, chain.start(random_input("squeezenet", seed)))
    for name, array in kept.items():
        np.testing.assert_array_equal(first[name], array)


def test_an_abandoned_request_leaves_no_trace_in_the_next(chain: BlockChain) -> None:
    abandoned = chain.start(random_input("squeezenet", 3))
    chain.run_block(0, abandoned)
    del abandoned
    inputs = random_input("squeezenet", 4)
    outputs = run(chain, chain.start(inputs))
    for name, expected in whole_model_outputs("squeezenet", inputs).items():
        np.testing.assert_array_equal(outputs[name], expected)


def test_memory_of_requests_is_ready_after_as_many_as_warm_a_model_up_and_comes_back_from_all(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository / "squeezenet"
    chain = BlockChain(SplitPlan.load(folder), folder, DeviceSettings(), is_split=True)
    taken: list[int] = []

    def counted(num_bytes: int) -> np.ndarray:
        taken.append(num_bytes)
        return touched_memory(num_bytes)

    monkeypatch.setattr("deployments.runtime.backends.onnx_sessions.touched_memory", counted)
    for seed in range(NUM_WARM_UP_RUNS):
        run(chain, chain.start(random_input("squeezenet", seed)))
    assert len(taken) == NUM_WARM_UP_RUNS
    assert len(set(taken)) == 1
    for _ in range(2):
        given_up = [chain.start(random_input("squeezenet", seed)) for seed in range(NUM_WARM_UP_RUNS)]
        chain.run_block(0, given_up[0])
        del given_up
    assert len(taken) == NUM_WARM_UP_RUNS


def test_values_of_fixed_and_of_open_size_from_one_block_keep_their_names(tmp_path: Path) -> None:
    save_running_sums(tmp_path / "sums.onnx")
    plan = split_tool.split(tmp_path / "sums.onnx", tmp_path / "plan", blocks=2, graph="user", budget_s=0.05)
    assert [tensor.name for cut in plan.cuts for tensor in cut.tensors] == ["last", "sums"]
    chain = BlockChain(plan, tmp_path / "plan", DeviceSettings(), is_split=True)
    for length in (3, 3, 7, 2):
        x = np.arange(length * 4, dtype=np.float32).reshape(length, 4)
        expected = np.cumsum(x, axis=0) - x.sum(axis=0)
        np.testing.assert_array_equal(run(chain, chain.start({"x": x}))["y"], expected)


def save_running_sums(path: Path) -> None:
    """A Scan that gives the last sum, whose size is fixed, and all of them; then their difference."""
    value, node = helper.make_tensor_value_info, helper.make_node
    body = helper.make_graph(
        [node("Add", ["before", "row"], ["after"]), node("Identity", ["after"], ["given"])],
        "body",
        [value(name, TensorProto.FLOAT, [4]) for name in ("before", "row")],
        [value(name, TensorProto.FLOAT, [4]) for name in ("after", "given")],
    )
    graph = helper.make_graph(
        [
            node("Scan", ["zero", "x"], ["last", "sums"], body=body, num_scan_inputs=1),
            node("Sub", ["sums", "last"], ["y"]),
        ],
        "sums",
        [value("x", TensorProto.FLOAT, ["n", 4])],
        [value("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(np.zeros(4, np.float32), "zero")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def test_unsplit_it_is_the_users_whole_model(repository: Path) -> None:
    folder = repository / "squeezenet"
    whole = BlockChain(SplitPlan.load(folder), folder, DeviceSettings(), is_split=False)
    assert whole.num_blocks == 1
    inputs = random_input("squeezenet", 2)
    outputs = run(whole, whole.start(inputs))
    for name, expected in whole_model_outputs("squeezenet", inputs).items():
        np.testing.assert_array_equal(outputs[name], expected, strict=True)


def test_memory_is_known_before_loading_from_the_files_and_what_crosses_the_cuts(repository: Path) -> None:
    folder = repository / "squeezenet"
    plan = SplitPlan.load(folder)
    (whole,) = memory_bytes(plan, folder, DeviceSettings(), is_split=False)
    assert whole == (folder / "model.onnx").stat().st_size
    blocks = memory_bytes(plan, folder, DeviceSettings(), is_split=True)
    crossing = sum(cut.crossing_bytes or 0 for cut in plan.cuts)
    assert len(blocks) == len(plan.blocks)
    assert sum(blocks) == sum((folder / block.file).stat().st_size for block in plan.blocks) + crossing
