"""Blocks of one split model as ONNX Runtime sessions, with the intermediates kept as OrtValues on the device."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from deployments.runtime.cuda_devices import VISIBLE, cuda_number
from deployments.runtime.errors import DeviceUnavailableError
from deployments.runtime.settings import DeviceSettings
from deployments.runtime.values import to_numpy, to_ort
from split_tool.plan import WHOLE_MODEL_FILE, SplitPlan

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}

_MAX_FREE_BUFFER_SETS = 4


class _Buffers:
    """Memory for what crosses the cuts of one request in flight, and the bindings of all blocks to it.

    The first request that passes leaves its crossing tensors here; from the second on nothing is allocated but the
    model's outputs.
    """

    def __init__(self, num_blocks: int) -> None:
        self.tensors: dict[str, ort.OrtValue] = {}
        self.bindings: list[ort.IOBinding | None] = [None] * num_blocks


class Values:
    """The values of one request that are alive, by name, between two blocks."""

    __slots__ = ("alive", "buffers")

    def __init__(self, alive: dict[str, ort.OrtValue], buffers: _Buffers) -> None:
        self.alive = alive
        self.buffers = buffers


class BlockChain:
    """The blocks of one model, loaded on one device; used by one thread at a time, for any number of requests."""

    def __init__(self, plan: SplitPlan, folder: Path, settings: DeviceSettings, *, is_split: bool) -> None:
        """Load the blocks, or the whole model as the only one.

        Args:
            plan: The model's split plan.
            folder: Where its files lie.
            settings: The device.
            is_split: False loads the user's whole model, as plain ONNX Runtime would.

        Raises:
            DeviceUnavailableError: If ONNX Runtime does not give the provider asked for.
        """
        self._device = settings.kind
        self._index = _provider_index(settings)
        if is_split:
            files = [block.file for block in plan.blocks]
            is_optimised = plan.graph == "optimised"
        else:
            files, is_optimised = [WHOLE_MODEL_FILE], False
        if settings.threads > 1:
            _share_threads(settings.threads)
        self._sessions = [_open_session(folder / file, settings, is_optimised=is_optimised) for file in files]
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

    @property
    def num_blocks(self) -> int:
        """At least 1."""
        return len(self._sessions)

    def start(self, inputs: Mapping[str, np.ndarray]) -> Values:
        """The request's inputs on the device, as the values alive before block 0."""
        alive = {name: to_ort(array, self._device, self._index) for name, array in inputs.items()}
        return Values(alive, self._free_buffers.pop() if self._free_buffers else _Buffers(self.num_blocks))

    def run_block(self, block: int, values: Values) -> None:
        """Run one block: its outputs join the values alive, what nobody needs any more leaves them.

        Raises:
            Exception: Whatever ONNX Runtime raises.
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
        alive.update(zip(self._output_names[block], binding.get_outputs(), strict=True))
        for name in self._buffered[block]:
            buffers.tensors.setdefault(name, alive[name])
        for name in self._dead_after[block]:
            alive.pop(name, None)

    def _categorised(self, error: RuntimeError, block: int, alive: dict[str, ort.OrtValue]) -> Exception:
        """The error of a block, as ``InvalidArgument`` if the request's values are to blame.

        ONNX Runtime leaves the category out where it runs with bindings: this runs the block once more without.
        """
        feeds = {name: alive[name] for name in self._input_names[block] if name in alive}
        try:
            self._sessions[block].run_with_ort_values(self._output_names[block], feeds)
        except InvalidArgument as refusal:
            categorised: Exception = refusal
            return categorised
        except Exception:
            return error
        return error

    def finish(self, values: Values) -> dict[str, np.ndarray]:
        """The model's outputs by name, in host memory; ``values`` are used up."""
        outputs = {name: to_numpy(values.alive[name]) for name in self.output_names}
        for name in self._forwarded:
            outputs[name] = outputs[name].copy()  # its memory is the input's, which goes now
        if len(self._free_buffers) < _MAX_FREE_BUFFER_SETS:
            self._free_buffers.append(values.buffers)
        return outputs

    def _bind(self, block: int, values: Values) -> ort.IOBinding:
        """A new binding of everything; it is kept once the block has memory for all that it shares with others."""
        buffers = values.buffers
        binding = self._sessions[block].io_binding()
        self._rebind(binding, self._input_names[block], self._rebound_outputs[block], values.alive)
        for name in self._buffered[block]:
            if name in buffers.tensors:
                binding.bind_ortvalue_output(name, buffers.tensors[name])
            else:
                binding.bind_output(name, self._device, self._index)
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
                binding.bind_output(name, self._device, self._index)


def _provider_index(settings: DeviceSettings) -> int:
    """The device's number among those of its kind that this process sees."""
    return cuda_number(settings.index, os.environ.get(VISIBLE)) if settings.kind == "cuda" else 0


def _open_session(path: Path, settings: DeviceSettings, *, is_optimised: bool) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.use_per_session_threads = settings.threads == 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.log_severity_level = 3
    if settings.kind == "cpu":
        _register_shared_arena()
        options.add_session_config_entry("session.use_env_allocators", "1")
    if is_optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted = PROVIDERS[settings.kind]
    if wanted not in ort.get_available_providers():
        raise DeviceUnavailableError(
            f"device {settings.device} needs {wanted}, this ONNX Runtime has {ort.get_available_providers()}: install "
            "onnxruntime-gpu and a CUDA driver, or set kind: cpu"
        )
    provider_options = [{"device_id": str(_provider_index(settings))}] if settings.kind == "cuda" else [{}]
    session = ort.InferenceSession(
        path, options, providers=[wanted], provider_options=provider_options, enable_fallback=0
    )
    if session.get_providers()[0] != wanted:
        raise DeviceUnavailableError(
            f"device {settings.device} needs {wanted}, but ONNX Runtime gave {session.get_providers()} for "
            f"{path.name}: check the CUDA driver and libraries, or set kind: cpu"
        )
    return session


@functools.cache
def _register_shared_arena() -> None:
    """One memory arena for all sessions of this process: what one block frees is warm when the next one asks."""
    memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(memory, None)


_num_shared_threads: int | None = None


def _share_threads(num_threads: int) -> None:
    """One thread pool for all sessions of this process; ONNX Runtime takes its size once, before the first session."""
    global _num_shared_threads
    if _num_shared_threads is None:
        ort.set_global_thread_pool_sizes(num_threads, 1)
        _num_shared_threads = num_threads


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
