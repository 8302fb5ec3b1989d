"""The examples of other frameworks, run as the documentation says; each needs its framework.

``make test-frameworks`` runs all of them in an environment of its own.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from examples.frameworks.two_blocks import Exported, OutputsDifferError, split_and_compare
from split_tool import SplitPlan, run_chain
from tests.models import ROOT

needs_tensorflow = pytest.mark.skipif(
    find_spec("tensorflow") is None or find_spec("tf2onnx") is None,
    reason="TensorFlow and tf2onnx are not installed: make test-frameworks",
)
needs_pytorch = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("onnxscript") is None,
    reason="PyTorch and onnxscript are not installed: make test-frameworks",
)


needs_compiler = pytest.mark.skipif(
    find_spec("tvm") is None or find_spec("pyopencl") is None,
    reason="TVM and pyopencl are not installed: make test-frameworks",
)
EXAMPLES = [
    pytest.param("keras_model", marks=needs_tensorflow),
    pytest.param("tflite_model", marks=needs_tensorflow),
    pytest.param("pytorch_model", marks=needs_pytorch),
]
INPUT_SHAPES = {
    "keras_model": (None, 3, 16, 16),
    "tflite_model": (None, 16, 16, 3),
    "pytorch_model": (None, 3, 16, 16),
}


@pytest.fixture(scope="module")
def ready(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan folder that an example makes."""
    example: str = request.param
    folder = tmp_path_factory.mktemp(example)
    done = subprocess.run(
        [sys.executable, "-m", f"examples.frameworks.{example}", "--out", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "2 blocks" in done.stdout
    return folder / example


@pytest.mark.parametrize("ready", EXAMPLES, indirect=True)
def test_a_chain_of_two_blocks_gives_what_the_framework_gives(ready: Path) -> None:
    plan = SplitPlan.load(ready)
    assert len(plan.blocks) == 2
    (image,) = plan.inputs
    assert tuple(size if isinstance(size, int) else None for size in image.shape or ()) == INPUT_SHAPES[ready.name]
    stored = np.load(ready.with_suffix(".npz"))
    (output,) = run_chain(plan, ready, {image.name: stored["sample"]})
    expected = stored["output"]
    assert output.shape == expected.shape
    assert float(np.ptp(expected)) > 1e-3  # a constant would show nothing
    assert np.abs(output - expected).max() <= 1e-5 * np.abs(expected).max()


@needs_compiler
@pytest.mark.parametrize("ready", EXAMPLES, indirect=True)
def test_every_block_compiles_for_opencl(ready: Path) -> None:
    from opencl_runner.device import open_device
    from opencl_runner.errors import NoOpenClDeviceError
    from split_tool.tvm_opencl.attempts import Options
    from split_tool.tvm_opencl.compiling import compile_plan

    try:
        open_device()
    except NoOpenClDeviceError as error:
        pytest.skip(f"no OpenCL device: {error}")

    compiled = compile_plan(ready, "opencl", Options())

    assert [block.served_by for block in compiled.blocks] == ["buffers", "buffers"]
    assert all(block.max_rel_error is not None and block.max_rel_error <= 1e-5 for block in compiled.blocks)


@pytest.mark.parametrize("wrong", [1.001, float("nan")])
def test_an_output_that_differs_from_the_frameworks_is_an_error(wrong: float, tmp_path: Path) -> None:
    shape = ["batch", 4]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Exp", ["y"], ["z"])],
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, shape)],
    )
    model = tmp_path / "two.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), str(model))
    sample = np.ones((2, 4), np.float32)
    right = np.exp(sample)

    assert split_and_compare(Exported(model=model, sample=sample, output=right)).rel_error < 1e-6
    with pytest.raises(OutputsDifferError, match="differs from the framework"):
        split_and_compare(Exported(model=model, sample=sample, output=right * np.float32(wrong)))
