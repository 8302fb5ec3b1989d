"""Fills the cache of built programs, so that the next start builds nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from opencl_runner.block import Block
from opencl_runner.checking import load_values, run_once
from opencl_runner.device import open_device
from opencl_runner.plan import PROGRAMS_FOLDER, CompiledPlan
from opencl_runner.programs import ProgramCache


def warm(folder: Path, device_index: int, report: Callable[[str], None]) -> None:
    """Build and run every compiled block in ``folder`` once and keep the programs there.

    A program is stored after a run: some drivers, PoCL among them, build the most of it only then.

    Args:
        folder: A folder with ``compiled.json``.
        device_index: OpenCL device of this machine.
        report: Called with a line for people after each block.

    Raises:
        CompiledPlanInvalidError: If a file is missing or cannot be read.
        NoOpenClDeviceError: If there is no such device.
    """
    device = open_device(device_index)
    programs = ProgramCache(folder / PROGRAMS_FOLDER)
    values = load_values(folder)
    for number, compiled in enumerate(CompiledPlan.load(folder).blocks):
        if compiled.folder is None:
            continue
        begin_s = time.perf_counter()
        block = Block(folder / compiled.folder, device, programs)
        run_once(block, device, values)
        run_s = time.perf_counter() - begin_s
        block.keep_program(programs)
        report(
            f"block {number}: built and run in {run_s:.2f} s, stored in {time.perf_counter() - begin_s - run_s:.2f} s"
        )
