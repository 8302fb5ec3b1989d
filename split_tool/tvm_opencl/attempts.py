"""Tries blocks on a target: compiles them, runs them on the device and compares with ONNX Runtime."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pyopencl as cl

from opencl_runner.block import Block
from opencl_runner.checking import MAX_REL_ERROR, error_of
from opencl_runner.device import Device
from opencl_runner.errors import OpenClError
from opencl_runner.plan import Launches
from split_tool.errors import one_line
from split_tool.plan import SplitPlan
from split_tool.tvm_opencl.compiler import Compiler
from split_tool.tvm_opencl.jobs import Algorithm, Job, Made
from split_tool.tvm_opencl.measuring import time_convolution
from split_tool.tvm_opencl.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to compile.

    Attributes:
        convolutions: ``auto`` follows the target's rule, ``direct`` takes no Winograd, ``measure`` times both on the
            device for each shape.
        limit_s: Time the compiler may take for one block, in seconds.
        cache: Folder for compiled blocks; None: ``.cache/compiled`` beside the plan folder.
        device: Index of the OpenCL device to check and measure on.
        pads_channels: Make channels divisible by 4 on textures.
    """

    convolutions: Literal["auto", "direct", "measure"] = "auto"
    limit_s: float = 300.0
    cache: Path | None = None
    device: int = 0
    pads_channels: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One block on one target.

    Attributes:
        folder: Where its files are.
        made: What the compiler answered.
        launches: What it made; None if nothing.
        max_rel_error: Difference to ONNX Runtime; None if it was not compared.
        reason: Why the block cannot be served this way; None if it can.
    """

    folder: Path
    made: Made
    launches: Launches | None = None
    max_rel_error: float | None = None
    reason: str | None = None


@dataclass(slots=True, kw_only=True)
class Attempts:
    """Tries the blocks of one plan.

    Attributes:
        plan: The split plan.
        folder: Its folder.
        values: See ``references.reference_values``.
        device: Where blocks are checked; None: nowhere.
        compiler: Makes them.
        options: How.
        scratch: Folder for what is tried.
        measured_ms: Times of convolutions by target and shape, and by algorithm, as far as they were measured.
    """

    plan: SplitPlan
    folder: Path
    values: dict[str, np.ndarray]
    device: Device | None
    compiler: Compiler
    options: Options
    scratch: Path
    measured_ms: dict[str, dict[str, float]] = field(default_factory=dict)

    def compile(self, target: Target, numbers: Sequence[int]) -> dict[int, Attempt]:
        """Try the blocks of these numbers on ``target``; tensors of numbers must be all that they read and give."""
        attempts: dict[int, Attempt] = {}
        for number in numbers:
            if foreign := self._foreign_names(number):
                reason = f"{', '.join(foreign)}: no tensor of numbers"
                attempts[number] = Attempt(folder=self.scratch, made=Made(error=reason), reason=reason)
        takes = [number for number in numbers if number not in attempts]
        algorithms: list[dict[str, Algorithm]] = [{} for _ in takes]
        if self.options.convolutions == "measure" and self.device is not None:
            _, first = self._run("direct", target, takes, algorithms)
            algorithms = [{key: self._faster(target, key) for key in made.eligible} for made in first]
        for number, job, made in zip(takes, *self._run("chosen", target, takes, algorithms), strict=True):
            attempts[number] = self._checked(job, made)
        return attempts

    def _run(
        self, name: str, target: Target, numbers: Sequence[int], algorithms: Sequence[dict[str, Algorithm]]
    ) -> tuple[list[Job], list[Made]]:
        jobs = [
            Job(
                file=str(self.folder / self.plan.blocks[number].file),
                folder=str(self.scratch / f"{target.name}_{name}_{number}"),
                target=target.name,
                shapes={tensor: self.values[tensor].shape for tensor in self.plan.blocks[number].inputs},
                outputs=self.plan.blocks[number].outputs,
                algorithms=chosen,
                follows_rule=self.options.convolutions == "auto",
                pads_channels=self.options.pads_channels,
            )
            for number, chosen in zip(numbers, algorithms, strict=True)
        ]
        external = [file.sha256 for file in self.plan.external_files]
        hashes = [(self.plan.blocks[number].sha256, *external) for number in numbers]
        return jobs, self.compiler.run(jobs, hashes)

    def _checked(self, job: Job, made: Made) -> Attempt:
        """The block after a run on the device, if there is one."""
        folder = Path(job.folder)
        if made.error is not None:
            return Attempt(folder=folder, made=made, reason=made.error)
        launches = Launches.load(folder)
        if self.device is None:
            return Attempt(folder=folder, made=made, launches=launches)
        try:
            error = error_of(Block(folder, self.device), self.device, self.values)
        except (OpenClError, cl.Error) as failure:
            return Attempt(folder=folder, made=made, reason=f"the device refuses it: {one_line(failure)}")
        reason = None if error <= MAX_REL_ERROR else f"wrong numbers: relative error {error:.1e} to ONNX Runtime"
        return Attempt(folder=folder, made=made, launches=launches, max_rel_error=error, reason=reason)

    def _foreign_names(self, number: int) -> list[str]:
        block = self.plan.blocks[number]
        return [name for name in (*block.inputs, *block.outputs) if name not in self.values]

    def _faster(self, target: Target, key: str) -> Algorithm:
        """The faster algorithm for a convolution on the device; each shape is measured once."""
        assert self.device is not None
        name = f"{target.name} {key}"
        if name not in self.measured_ms:
            self.measured_ms[name] = time_convolution(key, target, self.device, self.compiler, self.scratch)
        times = self.measured_ms[name]
        return "winograd" if times.get("winograd", math.inf) < times.get("direct", math.inf) else "direct"
