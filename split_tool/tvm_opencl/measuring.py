"""Times a convolution on the device, direct and by the Winograd algorithm."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np
import onnx
import pyopencl as cl
from onnx import TensorProto, helper, numpy_helper

from opencl_runner.block import Block
from opencl_runner.device import Device
from opencl_runner.errors import OpenClError
from opencl_runner.memory import allocate
from split_tool.plan import sha256_of_file
from split_tool.tvm_opencl.compiler import Compiler
from split_tool.tvm_opencl.jobs import Algorithm, Job
from split_tool.tvm_opencl.targets import Target

NUM_RUNS = 5
ALGORITHMS: tuple[Algorithm, ...] = ("direct", "winograd")


def time_convolution(key: str, target: Target, device: Device, compiler: Compiler, scratch: Path) -> dict[str, float]:
    """Median milliseconds of a 3x3 convolution of this shape by algorithm; what does not run is left out.

    Args:
        key: See ``convolutions.key_of``.
        target: What it is compiled for.
        device: Where it runs.
        compiler: Makes it.
        scratch: Folder for files.
    """
    file = scratch / f"{key}.onnx"
    shape = _write_convolution(key, file)
    jobs = [
        Job(
            file=str(file),
            folder=str(scratch / f"{target.name}_{key}_{algorithm}"),
            target=target.name,
            shapes={"x": shape},
            outputs=("y",),
            algorithms={key: algorithm},
        )
        for algorithm in ALGORITHMS
    ]
    made = compiler.run(jobs, [(sha256_of_file(file),)] * len(jobs))
    times: dict[str, float] = {}
    for algorithm, job, result in zip(ALGORITHMS, jobs, made, strict=True):
        if result.error is None and (time_ms := _time_ms(Path(job.folder), device)) is not None:
            times[algorithm] = time_ms
    return times


def _write_convolution(key: str, file: Path) -> tuple[int, ...]:
    """A model of the one convolution; gives the shape of its input."""
    left, _, out_channels = key.partition("-")
    shape = tuple(int(size) for size in left.split("x"))
    filters = np.random.default_rng(0).standard_normal((int(out_channels), shape[1], 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "filters"], ["y"], pads=[1, 1, 1, 1])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "convolution", inputs, outputs, [numpy_helper.from_array(filters, "filters")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), str(file))
    return shape


def _time_ms(folder: Path, device: Device) -> float | None:
    try:
        block = Block(folder, device)
        names = (*block.launches.inputs, *block.launches.outputs)
        values = {name: allocate(device, block.piece(name)) for name in names}
        times_s = []
        for _ in range(NUM_RUNS + 1):
            begin_s = time.perf_counter()
            block.run(values)
            device.queue.finish()
            times_s.append(time.perf_counter() - begin_s)
    except (OpenClError, cl.Error):
        return None
    return statistics.median(times_s[1:]) * 1e3  # the first run still compiles on some drivers
