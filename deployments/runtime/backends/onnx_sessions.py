"""Blocks as ONNX Runtime sessions, with the intermediates kept as OrtValues on the device; a ``Backend``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from deployments.runtime.backends.crossing_memory import Extent, lay_out, touched_memory
from deployments.runtime.backends.providers import PROVIDERS
from deployments.runtime.backends.strict_session import open_session
from deployments.runtime.cuda_devices import seen_index
from deployments.runtime.errors import DataRefusedError, PlanNotForDeviceError
from deployments.runtime.settings import DeviceSettings
from deployments.runtime.values import to_numpy, to_ort
from split_tool.plan import WHOLE_MODEL_FILE, SplitPlan
from split_tool.processor import processor_name_and_features

NUM_READY_SETS = 3
"""Requests of a model that may be under way with memory that is ready: as many as warm it up."""
_MAX_FREE_SETS = 8


class _Buffers:
    """Memory for what crosses the cuts of one request in flight, and the bindings of all blocks to it.

    A tensor that is not here when its block first runs is left here by it; afterwards nothing is allocated but the
    model's outputs.
    """

    def __init__(self, num_blocks: int) -> None:
        self.tensors: dict[str, ort.OrtValue] = {}
        self.bindings: list[ort.IOBinding | None] = [None] * num_blocks


class Values:
    """The values of one request that are alive, by name, between two blocks.

    Its buffers go back to ``pool`` with it, however the request ends.
    """

    __slots__ = ("alive", "buffers", "pool")

    def __init__(self, alive: dict[str, ort.OrtValue], buffers: _Buffers, pool: list[_Buffers]) -> None:
        self.alive = alive
        self.buffers = buffers
        self.pool = pool

    def __del__(self) -> None:
        if len(self.pool) < _MAX_FREE_SETS:
            self.pool.append(self.buffers)


class _Tensor(NamedTuple):
    """A crossing tensor in the memory of a set: its place in bytes, its size, and what it is."""

    name: str
    offset: int
    num_bytes: int
    dtype: np.dtype
    shape: list[int]


def check_plan(plan: SplitPlan, _folder: Path, device: DeviceSettings) -> None:
    """See ``Backend``: an optimised graph holds for one provider and kind of processor, the user's graph for all.

    Block times of another device do no harm: they follow what is measured here from the warm-up on.
    """
    if plan.graph == "user":
        return
    wanted, made_for = PROVIDERS[device.kind].name, plan.measured_on
    if made_for.provider != wanted:
        raise PlanNotForDeviceError(
            f"the blocks of {plan.model!r} come from a graph that was optimised for {made_for.provider}, device "
            f"{device.device} is {wanted}: split the model again with '--graph user --force'"
        )
    _, here = processor_name_and_features()
    if device.kind == "cpu" and made_for.processor_features != here:
        raise PlanNotForDeviceError(
            f"the blocks of {plan.model!r} were laid out for a processor with "
            f"{', '.join(made_for.processor_features)}; this one has {', '.join(here)}: split the model again on this "
            "machine"
        )


def memory_bytes(plan: SplitPlan, folder: Path, _device: DeviceSettings, *, is_split: bool) -> tuple[int, ...]:
    """See ``Backend``: the weights, and what crosses the cut after the block for one request in flight.

    What operators take while they run comes on top: ONNX Runtime does not tell it beforehand.
    """
    beside = {f"{block.file}.data" for block in plan.blocks}  # weights outside of a block's file
    if not is_split:
        files = [WHOLE_MODEL_FILE, *(file.path for file in plan.external_files if file.path not in beside)]
        return (sum((folder / file).stat().st_size for file in files),)
    sizes = {file.path: (folder / file.path).stat().st_size for file in plan.external_files if file.path in beside}
    crossing = [cut.crossing_bytes or 0 for cut in plan.cuts] + [0]
    return tuple(
        block.file_bytes + sizes.get(f"{block.file}.data", 0) + of_cut
        for block, of_cut in zip(plan.blocks, crossing, strict=True)
    )


def load(plan: SplitPlan, folder: Path, device: DeviceSettings, *, is_split: bool) -> BlockChain:
    """See ``Backend``; the whole model is loaded as plain ONNX Runtime would."""
    return BlockChain(plan, folder, device, is_split=is_split)


class BlockChain:
    """The blocks of one model, loaded on one device; see ``LoadedBlocks``."""

    def __init__(self, plan: SplitPlan, folder: Path, settings: DeviceSettings, *, is_split: bool) -> None:
        """Load the blocks; see ``load``.

        Raises:
            DeviceUnavailableError, NodesElsewhereError: See ``open_session``.
        """
        self._memory = PROVIDERS[settings.kind].memory
        self._index = seen_index(settings) if self._memory != "cpu" else 0
        hashes = (
            {block.file: block.sha256 for block in plan.blocks} if is_split else {WHOLE_MODEL_FILE: plan.source_sha256}
        )
        is_optimised = is_split and plan.graph == "optimised"
        self._sessions = [
            open_session(folder / file, sha256, settings, is_optimised=is_optimised) for file, sha256 in hashes.items()
        ]
        self._input_names = [[value.name for value in session.get_inputs()] for session in self._sessions]
        self._output_names = [[value.name for value in session.get_outputs()] for session in self._sessions]
        self.output_names = tuple(dict.fromkeys(spec.name for spec in plan.outputs))
        self._forwarded = {spec.name for spec in plan.inputs}.intersection(self.output_names)
        self._dead_after = _dead_after(self._input_names, self.output_names)
        buffered = _names_of_fixed_size(self._sessions) - set(self.output_names)
        self._buffered = [[name for name in names if name in buffered] for names in self._output_names]
        self._rebound_inputs = [[name for name in names if name not in buffered] for names in self._input_names]
        self._rebound_outputs = [[name for name in names if name not in buffered] for names in self._output_names]
        optional = {spec.name for spec in plan.inputs if spec.kind == "optional"}
        # in a binding that is kept, an optional input that is absent now would still be the last request's
        self._can_keep_binding = [optional.isdisjoint(names) for names in self._input_names]
        self._free_buffers: list[_Buffers] = []
        self._layout: tuple[list[_Tensor], int] | None = None
        self._num_ready_sets = 0

    @property
    def num_blocks(self) -> int:
        """At least 1."""
        return len(self._sessions)

    def start(self, inputs: Mapping[str, np.ndarray]) -> Values:
        """The request's inputs on the device, as the values alive before block 0."""
        alive = {name: to_ort(array, self._memory, self._index) for name, array in inputs.items()}
        buffers = self._free_buffers.pop() if self._free_buffers else self._filled_buffers()
        return Values(alive, buffers, self._free_buffers)

    def run_block(self, block: int, values: Values) -> None:
        """Run one block: its outputs join the values alive, what nobody needs any more leaves them.

        Raises:
            DataRefusedError: If the request's values are to blame.
            Exception: Whatever else ONNX Runtime raises.
        """
        alive, buffers = values.alive, values.buffers
        binding = buffers.bindings[block]
        if binding is None:
            binding = self._bind(block, values)
        else:
            self._rebind(binding, self._rebound_inputs[block], self._rebound_outputs[block], alive)
        try:
            self._sessions[block].run_with_iobinding(binding)
        except RuntimeError as error:
            raise self._categorised(error, block, alive) from None
        bound = self._rebound_outputs[block] + self._buffered[block]  # a binding gives its outputs in this order
        alive.update(zip(bound, binding.get_outputs(), strict=True))
        for name in self._buffered[block]:
            buffers.tensors.setdefault(name, alive[name])
        for name in self._dead_after[block]:
            alive.pop(name, None)

    def _categorised(self, error: RuntimeError, block: int, alive: dict[str, ort.OrtValue]) -> Exception:
        """The error of a block, as ``DataRefusedError`` if the request's values are to blame.

        ONNX Runtime leaves the category out where it runs with bindings: this runs the block once more without.
        """
        feeds = {name: alive[name] for name in self._input_names[block] if name in alive}
        try:
            self._sessions[block].run_with_ort_values(self._output_names[block], feeds)
        except InvalidArgument as refusal:
            return DataRefusedError(str(refusal))
        except Exception:
            return error
        return error

    def finish(self, values: Values) -> dict[str, np.ndarray]:
        """The model's outputs by name, in host memory; ``values`` are used up."""
        outputs = {name: to_numpy(values.alive[name]) for name in self.output_names}
        for name in self._forwarded:
            outputs[name] = outputs[name].copy()  # its memory is the input's, which goes now
        if self._num_ready_sets < NUM_READY_SETS and self._memory == "cpu":
            if self._layout is None:  # the first request shows what its buffers hold
                self._layout = self._lay_out(values.buffers.tensors)
                values.buffers = self._filled_buffers()
            else:
                self._free_buffers.append(self._filled_buffers())
            self._num_ready_sets += 1
        return outputs

    def _lay_out(self, tensors: Mapping[str, ort.OrtValue]) -> tuple[list[_Tensor], int]:
        """Where these tensors lie in the memory of a set, and its size; types that numpy does not have stay out."""
        writers = {name: block for block, names in enumerate(self._buffered) for name in names}
        readers = {name: block for block, names in enumerate(self._input_names) for name in names}  # the last ones
        arrays = {name: to_numpy(value) for name, value in tensors.items()}
        known = {name: array for name, array in arrays.items() if array.dtype.isbuiltin == 1 and array.nbytes}
        offsets, num_bytes = lay_out(
            [Extent(array.nbytes, writers[name], readers.get(name, writers[name])) for name, array in known.items()]
        )
        placed = [
            _Tensor(name, offset, array.nbytes, array.dtype, list(array.shape))
            for (name, array), offset in zip(known.items(), offsets, strict=True)
        ]
        return placed, num_bytes

    def _filled_buffers(self) -> _Buffers:
        """Buffers for one more request, with memory of their own once it is known what they hold."""
        buffers = _Buffers(self.num_blocks)
        if self._layout is not None:
            placed, num_bytes = self._layout
            memory = touched_memory(num_bytes)
            for name, offset, size, dtype, shape in placed:
                array = memory[offset : offset + size].view(dtype).reshape(shape)
                buffers.tensors[name] = to_ort(array, self._memory, self._index)
        return buffers

    def close(self) -> None:
        """Drop the sessions and the memory kept for requests."""
        self._sessions.clear()
        self._free_buffers.clear()

    def _bind(self, block: int, values: Values) -> ort.IOBinding:
        """A new binding of everything; it is kept once the block has memory for all that it shares with others."""
        buffers = values.buffers
        binding = self._sessions[block].io_binding()
        self._rebind(binding, self._input_names[block], self._rebound_outputs[block], values.alive)
        for name in self._buffered[block]:
            if name in buffers.tensors:
                binding.bind_ortvalue_output(name, buffers.tensors[name])
            else:
                binding.bind_output(name, self._memory, self._index)
        if self._can_keep_binding[block] and all(name in buffers.tensors for name in self._buffered[block]):
            buffers.bindings[block] = binding
        return binding

    def _rebind(
        self, binding: ort.IOBinding, inputs: list[str], outputs: list[str], alive: dict[str, ort.OrtValue]
    ) -> None:
        """Bind what differs from request to request; without a new binding the runtime would write into old outputs."""
        for name in inputs:
            if name in alive:  # an optional input may be absent
                binding.bind_ortvalue_input(name, alive[name])
        for name in outputs:
            if name in self.output_names:
                binding.bind_output(name, "cpu")
            else:
                binding.bind_output(name, self._memory, self._index)


def _names_of_fixed_size(sessions: list[ort.InferenceSession]) -> set[str]:
    """The block outputs that are tensors of numbers with every axis fixed; ``[]`` may be of any rank."""
    return {
        value.name
        for session in sessions
        for value in session.get_outputs()
        if value.type.startswith("tensor(")
        and value.type != "tensor(string)"
        and value.shape
        and all(isinstance(axis, int) for axis in value.shape)
    }


def _dead_after(input_names: list[list[str]], output_names: tuple[str, ...]) -> list[list[str]]:
    """For each block the values that no later block reads and the caller does not want."""
    last_reader: dict[str, int] = {}
    for block, names in enumerate(input_names):
        for name in names:
            last_reader[name] = block
    dead: list[list[str]] = [[] for _ in input_names]
    for name, block in last_reader.items():
        if name not in output_names:
            dead[block].append(name)
    return dead
