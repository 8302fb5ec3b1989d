"""The process that compiles: reads jobs from standard input, one a line, and answers each with a line.

TVM crashes on some graphs, so it lives in a process of its own (``supervise`` starts it).
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import tvm

from opencl_runner.plan import KERNELS_FILE, LAUNCHES_FILE, WEIGHTS_FILE
from split_tool.errors import one_line
from split_tool.tvm_opencl.convolutions import Convolutions
from split_tool.tvm_opencl.jobs import Job, Made
from split_tool.tvm_opencl.kernels import generate
from split_tool.tvm_opencl.launches import record, share_memory
from split_tool.tvm_opencl.lowering import lower
from split_tool.tvm_opencl.padding import pad_channels
from split_tool.tvm_opencl.prepare import prepare
from split_tool.tvm_opencl.targets import TARGETS


def compile_block(job: Job) -> Made:
    """Compile one block and write its files.

    Raises:
        Exception: Whatever TVM raises, and our own.
    """
    begin_s = time.perf_counter()
    target = TARGETS[job.target]
    model = prepare(Path(job.file), job.shapes)
    if target.texture and job.pads_channels:
        pad_channels(model)
    convolutions = Convolutions(target, job.algorithms, follows_rule=job.follows_rule)
    for_tvm = tvm.target.Target(target.tvm)
    module = lower(model, for_tvm, convolutions, texture=target.texture)
    source, host = generate(module, for_tvm, texture=target.texture)
    launches, weights = share_memory(*record(module["main"], host, list(job.shapes), job.outputs))
    folder = Path(job.folder)
    (folder / KERNELS_FILE).write_text(source)
    np.savez(folder / WEIGHTS_FILE, allow_pickle=False, **{str(number): array for number, array in weights.items()})
    (folder / LAUNCHES_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(launches), indent=1))
    return Made(
        compile_s=time.perf_counter() - begin_s,
        winograd=tuple(convolutions.winograd),
        eligible=tuple(convolutions.eligible),
    )


def main() -> None:
    """Compile every job of standard input."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no answer
    for line in sys.stdin.buffer:
        job = msgspec.json.decode(line, type=Job)
        Path(job.folder).mkdir(parents=True, exist_ok=True)
        try:
            made = compile_block(job)
        except Exception as error:  # TVM raises whatever its passes do
            made = Made(error=f"{type(error).__name__}: {one_line(error)}")
        answers.write(msgspec.json.encode(made) + b"\n")


if __name__ == "__main__":
    main()
