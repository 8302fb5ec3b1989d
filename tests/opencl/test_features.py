"""What the compiler does with convolutions, textures and reductions, each beside ONNX Runtime's result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from opencl_runner.block import Block
from opencl_runner.checking import MAX_REL_ERROR, relative_error, run_once
from opencl_runner.plan import KERNELS_FILE, Launch, Launches
from split_tool.tvm_opencl.jobs import Job, Made
from split_tool.tvm_opencl.supervise import compile_all
from tests.opencl import toys

_WINOGRAD = {"1x4x8x8-8": "winograd"}
CASES: dict[str, tuple[onnx.ModelProto, str, dict[str, Any]]] = {
    "dense on textures": (toys.dense(), "adreno-texture", {}),
    "dense on buffers": (toys.dense(), "opencl", {}),
    "dense by Winograd": (toys.dense(), "opencl", {"algorithms": _WINOGRAD}),
    "three kinds on buffers": (toys.three_kinds(), "mali", {}),
    "three kinds on textures": (toys.three_kinds(), "adreno-texture", {}),
    "odd channels": (toys.odd_channels(), "adreno-texture", {}),
    "odd channels unpadded": (toys.odd_channels(), "adreno-texture", {"pads_channels": False}),
    "small maximum": (toys.pooled("MaxPool", 2), "adreno-texture", {}),
    "small average": (toys.pooled("AveragePool", 2), "adreno-texture", {}),
    "many channels": (toys.many_channels(16), "opencl", {}),
    "many channels, large": (toys.many_channels(112), "opencl", {}),
    "large average": (toys.averaged(), "adreno", {}),
}


@dataclass(frozen=True)
class Compiled:
    made: Made
    launches: Launches
    source: str
    rel_error: float

    @property
    def kernels(self) -> list[str]:
        return [step.kernel for step in self.launches.steps if isinstance(step, Launch)]


@pytest.fixture(scope="module")
def compiled(device: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compiled]:
    """All cases, compiled by one process and run on the device."""
    folder = tmp_path_factory.mktemp("features")
    jobs = []
    for number, (model, target, options) in enumerate(CASES.values()):
        file = folder / f"{number}.onnx"
        onnx.save(model, str(file))
        shapes = {"x": tuple(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)}
        to = str(folder / str(number))
        jobs.append(Job(file=str(file), folder=to, target=target, shapes=shapes, outputs=("y",), **options))
    results = compile_all(jobs, limit_s=120)
    return {name: _run(job, made, device) for name, job, made in zip(CASES, jobs, results, strict=True)}


def _run(job: Job, made: Made, device: Any) -> Compiled:
    assert made.error is None, made.error
    inputs = toys.random_input(job.shapes["x"])
    (expected,) = ort.InferenceSession(job.file, providers=["CPUExecutionProvider"]).run(["y"], inputs)
    block = Block(Path(job.folder), device)
    got = run_once(block, device, inputs)["y"]
    source = (Path(job.folder) / KERNELS_FILE).read_text()
    return Compiled(made, block.launches, source, relative_error(np.asarray(expected), got))


@pytest.mark.parametrize("name", CASES)
def test_results_equal_those_of_onnx_runtime(name: str, compiled: dict[str, Compiled]) -> None:
    assert compiled[name].rel_error <= MAX_REL_ERROR


def test_on_textures_activations_lie_in_images_four_channels_to_a_texel(compiled: dict[str, Compiled]) -> None:
    texture, buffers = compiled["dense on textures"], compiled["dense on buffers"]
    assert any("conv2d_NCHWc_OIHWo" in kernel for kernel in texture.kernels)
    assert "image2d_array_t" in texture.source.split("__kernel", 1)[1]
    assert all(piece.shape[-1] == 4 for piece in texture.launches.memory if "texture" in piece.scope)
    assert buffers.launches.num_textures == 0
    assert "read_imagef" not in buffers.source


def test_the_padded_input_of_a_convolution_is_a_texture_inside_its_function(
    compiled: dict[str, Compiled],
) -> None:
    launches = compiled["dense on textures"].launches
    scratch = [number for number, piece in enumerate(launches.memory) if piece.scope == "global.texture-nhwc"]
    pad, convolution = (step for step in launches.steps if isinstance(step, Launch) and "conv2d" in step.kernel)
    assert pad.kernel.removesuffix("_kernel") == convolution.kernel.removesuffix("_kernel_1")  # of one function
    assert set(scratch) & set(pad.arguments) & set(convolution.arguments)


def test_each_convolution_gets_the_algorithm_of_its_kind(compiled: dict[str, Compiled]) -> None:
    names = " ".join(compiled["three kinds on buffers"].kernels)
    assert all(f"conv2d_{kind}" in names for kind in ("direct", "depthwise", "grouped"))
    on_textures = " ".join(compiled["three kinds on textures"].kernels)
    assert "NCHWc" in on_textures  # the dense one alone
    assert "conv2d_depthwise" in on_textures
    assert "conv2d_grouped" in on_textures


def test_winograd_is_taken_where_it_was_chosen_and_only_there(compiled: dict[str, Compiled]) -> None:
    assert compiled["dense by Winograd"].made.winograd == ("1x4x8x8-8",)
    assert any("winograd" in kernel for kernel in compiled["dense by Winograd"].kernels)
    assert compiled["dense on buffers"].made.eligible == ("1x4x8x8-8",)
    assert not any("winograd" in kernel for kernel in compiled["dense on buffers"].kernels)


def test_channels_that_do_not_fill_texels_are_padded(compiled: dict[str, Compiled]) -> None:
    assert compiled["odd channels"].launches.num_textures > 0
    assert compiled["odd channels unpadded"].launches.num_textures == 0


def test_large_sums_are_shared_by_a_work_group_and_small_ones_are_not(compiled: dict[str, Compiled]) -> None:
    assert "barrier(" in compiled["large average"].source
    assert "barrier(" not in compiled["small average"].source
    assert "barrier(" not in compiled["small maximum"].source
    assert compiled["small maximum"].launches.num_textures > compiled["dense on textures"].launches.num_textures - 1


def test_a_long_sum_of_one_work_item_is_taken_in_parts(compiled: dict[str, Compiled]) -> None:
    for name in ("many channels", "many channels, large"):
        assert "barrier(" not in compiled[name].source
        assert "_rf_local" in compiled[name].source
        assert compiled[name].rel_error <= 6e-7  # in one sum it is 1.1e-6
