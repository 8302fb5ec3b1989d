"""One compiled block on a device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from opencl_runner.device import Device
from opencl_runner.errors import CompiledPlanInvalidError
from opencl_runner.memory import allocate, copy, upload
from opencl_runner.plan import KERNELS_FILE, WEIGHTS_FILE, Copy, Launch, Launches, Memory
from opencl_runner.programs import ProgramCache, build


class Block:
    """Its kernels, weights and working memory; one run at a time."""

    def __init__(self, folder: Path, device: Device, programs: ProgramCache | None = None) -> None:
        """Load the block and put its weights on the device.

        Args:
            folder: What the compiler has written.
            device: Where it runs.
            programs: Where built programs are kept from one start to the next.

        Raises:
            CompiledPlanInvalidError: If a file is missing or does not fit the others.
        """
        self.launches = Launches.load(folder)
        self._device = device
        try:
            source = (folder / KERNELS_FILE).read_text()
            with np.load(folder / WEIGHTS_FILE, allow_pickle=False) as archive:
                weights = {number: archive[str(number)] for number in self.launches.constants}
        except (OSError, ValueError, KeyError) as error:
            raise CompiledPlanInvalidError(f"{folder} cannot be read ({error}): compile the plan again") from error
        self._source = source
        self._program = build(source, device, programs)
        given = {*self.launches.inputs.values(), *self.launches.outputs.values()}
        self._own = {n: allocate(device, p) for n, p in enumerate(self.launches.memory) if n not in given}
        for number, array in weights.items():
            upload(device, self._own[number], self.launches.memory[number], array)
        self._steps = [self._prepare(step) for step in self.launches.steps]

    def piece(self, name: str) -> Memory:
        """What memory an input or output is."""
        return self.launches.memory[(self.launches.inputs | self.launches.outputs)[name]]

    def run(self, values: Mapping[str, Any]) -> None:
        """Ask for all steps; they run in the background.

        Args:
            values: Device memory of every input and output by name.
        """
        given = {number: values[name] for name, number in self.launches.inputs.items()}
        given |= {number: values[name] for name, number in self.launches.outputs.items()}
        pieces = self.launches.memory
        for step, kernel, rebound in self._steps:
            if isinstance(step, Copy):
                source, target = (self._own.get(n, given.get(n)) for n in (step.source, step.target))
                copy(self._device, source, pieces[step.source], target, pieces[step.target])
                continue
            for position, number in rebound:
                kernel.set_arg(position, given[number])
            sizes = tuple(groups * threads for groups, threads in zip(step.groups, step.threads, strict=True))
            cl.enqueue_nd_range_kernel(self._device.queue, kernel, sizes, step.threads)

    def _prepare(self, step: Launch | Copy) -> tuple[Launch | Copy, Any, list[tuple[int, int]]]:
        """A kernel object for this launch alone, with all arguments set but those that differ from run to run."""
        if isinstance(step, Copy):
            return step, None, []
        kernel = cl.Kernel(self._program, step.kernel)
        rebound = []
        for position, number in enumerate(step.arguments):
            if number in self._own:
                kernel.set_arg(position, self._own[number])
            else:
                rebound.append((position, number))
        return step, kernel, rebound

    def keep_program(self, programs: ProgramCache) -> None:
        """Store the built program; call it after a run, by when the driver has built all it needs."""
        programs.put(self._source, self._program, self._device)
