"""Whole split plans: compiled, checked, served by the runtime's backend, and what happens where something is wrong."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper

from deployments.runtime.backends import opencl_blocks
from deployments.runtime.errors import DataRefusedError, PlanNotForDeviceError
from deployments.runtime.settings import DeviceSettings
from opencl_runner.checking import MAX_REL_ERROR, relative_error
from opencl_runner.plan import COMPILED_FOLDER, WEIGHTS_FILE, CompiledPlan, find_compiled
from split_tool import SplitPlan, run_chain, split
from split_tool.tvm_opencl.attempts import Options
from split_tool.tvm_opencl.compiling import compile_plan
from split_tool.tvm_opencl.errors import PlanNotCompilableError
from tests.opencl import toys

OPENCL = DeviceSettings(kind="opencl")
SHAPE = (1, 4, 8, 8)


def make_plan(model: onnx.ModelProto, folder: Path, name: str, *, graph: Any = "user", blocks: int = 2) -> Path:
    file = folder / f"{name}.onnx"
    onnx.save(model, str(file))
    split(file, folder / name, blocks=blocks, graph=graph, budget_s=0.05)
    return folder / name


def run(chain: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    values = chain.start(inputs)
    for block in range(chain.num_blocks):
        chain.run_block(block, values)
    outputs: dict[str, np.ndarray] = chain.finish(values)
    return outputs


@pytest.fixture(scope="module")
def folder(device: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of two blocks, compiled for plain buffers."""
    plan_folder = make_plan(toys.classifier(), tmp_path_factory.mktemp("plans"), "classifier")
    compile_plan(plan_folder, "opencl", Options())
    return plan_folder


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    shutil.copytree(folder, tmp_path / "classifier")
    return tmp_path / "classifier"


def load(folder: Path, **options: Any) -> Any:
    return opencl_blocks.load(SplitPlan.load(folder), folder, OPENCL, **{"is_split": True, **options})


def test_every_block_is_checked_on_the_device_before_it_is_served(folder: Path) -> None:
    compiled = CompiledPlan.load(find_compiled(folder, None))
    assert [block.served_by for block in compiled.blocks] == ["buffers", "buffers"]
    assert all(block.max_rel_error is not None and block.max_rel_error <= MAX_REL_ERROR for block in compiled.blocks)
    assert compiled.checked_on is not None


@pytest.mark.parametrize("is_split", [True, False])
def test_interleaved_requests_give_what_onnx_runtime_gives(folder: Path, is_split: bool) -> None:
    chain = load(folder, is_split=is_split)
    assert chain.num_blocks == (2 if is_split else 1)
    plan = SplitPlan.load(folder)
    for first_seed in (0, 3):  # the first round allocates, the second reuses
        inputs = [toys.random_input(SHAPE, first_seed + number) for number in range(3)]
        values = [chain.start(each) for each in inputs]
        for block in range(chain.num_blocks):
            for each in values:
                chain.run_block(block, each)
        for each, given in zip(values, inputs, strict=True):
            (expected,) = run_chain(plan, folder, given)
            assert relative_error(expected, chain.finish(each)["y"]) <= MAX_REL_ERROR
    chain.close()


def test_the_memory_of_every_block_is_known_before_it_is_loaded(folder: Path) -> None:
    plan = SplitPlan.load(folder)
    each = opencl_blocks.memory_bytes(plan, folder, OPENCL, is_split=True)
    assert len(each) == 2
    assert all(number > 0 for number in each)
    assert opencl_blocks.memory_bytes(plan, folder, OPENCL, is_split=False) == (sum(each),)


def test_another_shape_than_compiled_for_is_the_requests_fault(folder: Path) -> None:
    with pytest.raises(DataRefusedError, match="compiled for"):
        load(folder).start(toys.random_input((2, 4, 8, 8)))


def test_a_block_that_gives_wrong_numbers_at_the_start_runs_on_onnx_runtime(
    copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    weights = find_compiled(copied, None) / "block_00" / WEIGHTS_FILE
    with np.load(weights) as archive:
        np.savez(weights, **{name: archive[name] * 1.5 for name in archive.files})
    with caplog.at_level(logging.WARNING):
        chain = load(copied)
    assert "wrong numbers" in caplog.text
    inputs = toys.random_input(SHAPE)
    (expected,) = run_chain(SplitPlan.load(copied), copied, inputs)
    assert relative_error(expected, run(chain, inputs)["y"]) <= MAX_REL_ERROR


def test_compiled_blocks_of_another_plan_are_refused(copied: Path) -> None:
    compiled_folder = find_compiled(copied, None)
    compiled = CompiledPlan.load(compiled_folder)
    msgspec.structs.replace(compiled, block_sha256=("0", "1")).save(compiled_folder)
    with pytest.raises(PlanNotForDeviceError, match="compile it again"):
        opencl_blocks.check_plan(SplitPlan.load(copied), copied, OPENCL)
    shutil.rmtree(copied / COMPILED_FOLDER)
    with pytest.raises(PlanNotForDeviceError, match="split_tool compile"):
        opencl_blocks.check_plan(SplitPlan.load(copied), copied, OPENCL)


def test_what_textures_cannot_do_falls_back_block_by_block_and_says_why(device: Any, tmp_path: Path) -> None:
    nodes = [toys.conv("x", "w", "c"), helper.make_node("Cos", ["c"], ["s"]), helper.make_node("Det", ["s"], ["y"])]
    model = toys.net(nodes, (1, 4, 8, 8), w=(8, 4, 3, 3))
    del model.graph.output[0].type.tensor_type.shape.dim[2:]
    compiled = compile_plan(make_plan(model, tmp_path, "det"), "adreno-texture", Options())
    assert [block.served_by for block in compiled.blocks] == ["texture", "onnxruntime"]
    assert [reason.partition(":")[0] for reason in compiled.blocks[1].reasons] == ["adreno-texture", "adreno"]
    inputs = toys.random_input(SHAPE)
    (expected,) = run_chain(SplitPlan.load(tmp_path / "det"), tmp_path / "det", inputs)
    assert relative_error(expected, run(load(tmp_path / "det"), inputs)["y"]) <= 10 * MAX_REL_ERROR  # two rungs deep


def test_a_plan_cut_from_the_optimised_graph_is_refused_with_the_way_out(tmp_path: Path) -> None:
    folder = make_plan(toys.dense(), tmp_path, "dense", graph="optimised", blocks=1)
    with pytest.raises(PlanNotCompilableError, match="--graph user"):
        compile_plan(folder, "opencl", Options())


def test_where_convolutions_are_measured_the_faster_algorithm_is_taken(device: Any, tmp_path: Path) -> None:
    folder = make_plan(toys.dense(), tmp_path, "dense", blocks=1)
    compiled = compile_plan(folder, "opencl", Options(convolutions="measure"))
    (times,) = compiled.measured_ms.values()
    assert set(times) == {"direct", "winograd"}
    assert compiled.blocks[0].winograd == (times["winograd"] < times["direct"])


def test_a_block_that_takes_the_compiler_too_long_goes_to_onnx_runtime(tmp_path: Path) -> None:
    folder = make_plan(toys.dense(), tmp_path, "dense", blocks=1)
    (block,) = compile_plan(folder, "opencl", Options(limit_s=0.01)).blocks
    assert block.served_by == "onnxruntime"
    assert "was ended after" in block.reasons[0]
