"""Blocks of one split model as ONNX Runtime sessions, with the intermediates kept as OrtValues on the device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime as ort

from deployments.runtime.errors import DeviceUnavailableError
from deployments.runtime.settings import DeviceSettings
from split_tool.plan import WHOLE_MODEL_FILE, SplitPlan

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}

Values = dict[str, ort.OrtValue]


class BlockChain:
    """The blocks of one model, loaded on one device; used by one thread at a time."""

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
        self._index = settings.index if settings.kind != "cpu" else 0
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
        self.output_names = tuple(spec.name for spec in plan.outputs)
        self._dead_after = _dead_after(self._input_names, self.output_names)

    @property
    def num_blocks(self) -> int:
        """At least 1."""
        return len(self._sessions)

    def start(self, inputs: Mapping[str, np.ndarray]) -> Values:
        """The request's inputs on the device, as the values alive before block 0."""
        return {
            name: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), self._device, self._index)
            for name, array in inputs.items()
        }

    def run_block(self, block: int, values: Values) -> None:
        """Run one block: its outputs join ``values``, what nobody needs any more leaves them.

        Raises:
            Exception: Whatever ONNX Runtime raises; ``values`` is unchanged then.
        """
        session, output_names = self._sessions[block], self._output_names[block]
        feeds = {name: values[name] for name in self._input_names[block]}
        results = session.run_with_ort_values(output_names, feeds)
        values.update(zip(output_names, results, strict=True))
        for name in self._dead_after[block]:
            values.pop(name, None)

    def finish(self, values: Values) -> dict[str, np.ndarray]:
        """The model's outputs by name, copied to host memory."""
        return {name: values[name].numpy() for name in self.output_names}


def _open_session(path: Path, settings: DeviceSettings, *, is_optimised: bool) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.use_per_session_threads = settings.threads == 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.log_severity_level = 3
    if is_optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted = PROVIDERS[settings.kind]
    if wanted not in ort.get_available_providers():
        raise DeviceUnavailableError(
            f"device {settings.device} needs {wanted}, this ONNX Runtime has {ort.get_available_providers()}: install "
            "onnxruntime-gpu and a CUDA driver, or set kind: cpu"
        )
    provider_options = [{"device_id": str(settings.index)}] if settings.kind == "cuda" else [{}]
    session = ort.InferenceSession(
        path, options, providers=[wanted], provider_options=provider_options, enable_fallback=0
    )
    if session.get_providers()[0] != wanted:
        raise DeviceUnavailableError(
            f"device {settings.device} needs {wanted}, but ONNX Runtime gave {session.get_providers()} for "
            f"{path.name}: check the CUDA driver and libraries, or set kind: cpu"
        )
    return session


_num_shared_threads: int | None = None


def _share_threads(num_threads: int) -> None:
    """One thread pool for all sessions of this process; ONNX Runtime takes its size once, before the first session."""
    global _num_shared_threads
    if _num_shared_threads is None:
        ort.set_global_thread_pool_sizes(num_threads, 1)
        _num_shared_threads = num_threads


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
