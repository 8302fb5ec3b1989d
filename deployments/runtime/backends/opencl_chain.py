"""The compiled blocks of one model on one OpenCL device."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pyopencl as cl

from deployments.runtime.errors import DataRefusedError
from deployments.runtime.settings import DeviceSettings
from opencl_runner.block import Block
from opencl_runner.checking import MAX_REL_ERROR, error_of, load_values
from opencl_runner.device import Device, open_device
from opencl_runner.memory import allocate, download, upload
from opencl_runner.plan import PROGRAMS_FOLDER, CompiledBlock, CompiledPlan, Memory
from opencl_runner.programs import ProgramCache
from split_tool.plan import SplitPlan

logger = logging.getLogger(__name__)

_MAX_FREE = 4
"""So many unused pieces of memory of one size are kept for the requests that come."""


class Values:
    """The values of one request that are alive, by name: in device memory, or as arrays where a block left them."""

    __slots__ = ("alive",)

    def __init__(self, alive: dict[str, Any]) -> None:
        self.alive = alive


class OpenClChain:
    """See ``LoadedBlocks``: what crosses a cut stays in device memory."""

    def __init__(
        self,
        plan: SplitPlan,
        folder: Path,
        compiled: CompiledPlan,
        compiled_folder: Path,
        settings: DeviceSettings,
        *,
        is_split: bool,
    ) -> None:
        """Load every block and compare it with ONNX Runtime's stored outputs on this device.

        Args:
            plan: The split plan.
            folder: Where its files lie.
            compiled: What was compiled from it.
            compiled_folder: Where that lies.
            settings: The device.
            is_split: False: all blocks are one.

        Raises:
            NoOpenClDeviceError: If the device is not there.
            CompiledPlanInvalidError: If a file is missing or cannot be read.
        """
        self._device: Device = open_device(settings.index)
        self._input_shapes = compiled.input_shapes
        values = load_values(compiled_folder)
        programs = ProgramCache(compiled_folder / PROGRAMS_FOLDER)
        self._blocks: list[Block | _OnProcessor] = [
            _load(folder / block.file, compiled_block, compiled_folder, self._device, programs, values)
            for block, compiled_block in zip(plan.blocks, compiled.blocks, strict=True)
        ]
        self.output_names = tuple(dict.fromkeys(spec.name for spec in plan.outputs))
        self._reads = [block.inputs for block in plan.blocks]
        self._gives = [block.outputs for block in plan.blocks]
        self._dead_after = _dead_after(self._reads, self.output_names)
        self._pieces = {name: Memory(shape=array.shape, dtype=str(array.dtype)) for name, array in values.items()}
        self._free: dict[int, list[Any]] = {}
        self._turns = [[n] for n in range(len(self._blocks))] if is_split else [list(range(len(self._blocks)))]

    @property
    def num_blocks(self) -> int:
        """At least 1."""
        return len(self._turns)

    def start(self, inputs: Mapping[str, np.ndarray]) -> Values:
        """See ``LoadedBlocks``.

        Raises:
            DataRefusedError: If an input has another shape than the blocks were compiled for.
        """
        for name, array in inputs.items():
            if array.shape != self._input_shapes.get(name, array.shape):
                raise DataRefusedError(
                    f"input {name!r} has shape {array.shape}, the blocks were compiled for "
                    f"{self._input_shapes[name]} only"
                )
        return Values({name: self._to_device(name, array) for name, array in inputs.items()})

    def run_block(self, block: int, values: Values) -> None:
        """See ``LoadedBlocks``; it waits for the device."""
        for number in self._turns[block]:
            self._run(number, values.alive)
        self._device.queue.finish()

    def finish(self, values: Values) -> dict[str, np.ndarray]:
        """See ``LoadedBlocks``."""
        outputs = {name: self._to_host(name, values.alive[name]) for name in self.output_names}
        for name in set(values.alive):
            self._release(name, values.alive.pop(name))
        return outputs

    def close(self) -> None:
        """See ``LoadedBlocks``: OpenCL gives memory back with the last reference."""
        self._blocks.clear()
        self._free.clear()

    def _run(self, number: int, alive: dict[str, Any]) -> None:
        block = self._blocks[number]
        if isinstance(block, Block):
            for name in self._reads[number]:
                alive[name] = self._to_device(name, alive[name])
            for name in self._gives[number]:
                alive[name] = self._allocate(self._pieces[name])
            block.run({name: alive[name] for name in (*self._reads[number], *self._gives[number])})
        else:
            alive |= block.run({name: self._to_host(name, alive[name]) for name in self._reads[number]})
        for name in self._dead_after[number]:
            self._release(name, alive.pop(name))

    def _to_device(self, name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or name not in self._pieces:
            return value
        memory = self._allocate(self._pieces[name])
        upload(self._device, memory, self._pieces[name], value)
        return memory

    def _to_host(self, name: str, value: Any) -> Any:
        return value if not isinstance(value, cl.Buffer) else download(self._device, value, self._pieces[name])

    def _allocate(self, piece: Memory) -> Any:
        free = self._free.get(piece.num_bytes)
        return free.pop() if free else allocate(self._device, piece)

    def _release(self, name: str, value: Any) -> None:
        """What runs in order on the queue may still use it; what comes later may use it again."""
        if isinstance(value, cl.Buffer):
            free = self._free.setdefault(self._pieces[name].num_bytes, [])
            if len(free) < _MAX_FREE:
                free.append(value)


class _OnProcessor:
    """A block that ONNX Runtime runs on the processor, between others that run on the device."""

    def __init__(self, file: Path) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self._outputs = [value.name for value in self._session.get_outputs()]

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(self._outputs, self._session.run(self._outputs, inputs), strict=True))


def _load(
    file: Path,
    compiled: CompiledBlock,
    compiled_folder: Path,
    device: Device,
    programs: ProgramCache,
    values: Mapping[str, np.ndarray],
) -> Block | _OnProcessor:
    """The block as the compiled plan says, or on the processor if it gives wrong numbers on this device."""
    if compiled.folder is None:
        return _OnProcessor(file)
    try:
        block = Block(compiled_folder / compiled.folder, device, programs)
        error = error_of(block, device, values)
        if error <= MAX_REL_ERROR:
            return block
        reason = f"it gives wrong numbers on this device (relative error {error:.1e} to ONNX Runtime)"
    except cl.Error as refusal:
        reason = f"the device refuses it ({refusal})"
    logger.warning("%s runs on ONNX Runtime on the processor: %s", file, reason)
    return _OnProcessor(file)


def _dead_after(reads: Sequence[Sequence[str]], output_names: Sequence[str]) -> list[list[str]]:
    """For each block the values that no later block reads and the caller does not want."""
    last_reader = {name: block for block, names in enumerate(reads) for name in names}
    dead: list[list[str]] = [[] for _ in reads]
    for name, block in last_reader.items():
        if name not in output_names:
            dead[block].append(name)
    return dead
