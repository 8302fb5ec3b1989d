"""On a CUDA device: ``python -m pytest tests/gpu``; skipped with the reason where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.gpu.chains import chain_figures
from deployments.runtime.backends.strict_session import open_session, placed_nodes
from deployments.runtime.errors import NodesElsewhereError
from deployments.runtime.memory_budget import budget_bytes
from deployments.runtime.settings import DeviceSettings
from serve_app.doctor.probe import reason_not_usable
from split_tool.splitting import split

CUDA = DeviceSettings(kind="cuda")
REASON = reason_not_usable(CUDA)

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=f"no CUDA device can be used: {REASON}")]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Six convolutions with random weights."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.standard_normal((16, 16, 3, 3)).astype(np.float32) / 12, f"w{index}")
        for index in range(6)
    ]
    nodes = [
        node
        for index in range(6)
        for node in (
            helper.make_node("Conv", [f"x{index}", f"w{index}"], [f"y{index}"], name=f"conv{index}", pads=[1] * 4),
            helper.make_node("Relu", [f"y{index}"], [f"x{index + 1}"], name=f"relu{index}"),
        )
    ]
    shape = [1, 16, 64, 64]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("x6", TensorProto.FLOAT, shape)],
        weights,
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_blocks_give_what_the_whole_model_gives_on_the_processor(model: Path, tmp_path: Path) -> None:
    split(model, tmp_path / "plan", blocks=3, graph="user")
    figures = chain_figures(tmp_path / "plan", CUDA, seconds=0.0)
    assert len(figures.block_times_s) == 3
    assert figures.difference < 1e-3  # TF32 has ten bits of fraction


def test_every_node_runs_on_the_device(model: Path) -> None:
    nodes = placed_nodes(open_session(model, "0" * 64, CUDA, is_optimised=True))
    assert {node.provider for node in nodes} == {"CUDAExecutionProvider"}


def test_a_node_that_cuda_does_not_have_is_an_error_that_names_it(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Unique", ["y"], ["z"], name="unique1")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    with pytest.raises(NodesElsewhereError, match="unique1"):
        open_session(path, "0" * 64, CUDA, is_optimised=True)


def test_the_budget_is_the_memory_that_the_driver_tells() -> None:
    budget = budget_bytes(CUDA)
    assert budget is not None
    assert budget > 1 << 30
