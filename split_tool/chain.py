"""Runs the blocks of a plan one after another: for proofs, measurements and people without a server."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime as ort
from onnx import ModelProto

from split_tool.plan import SplitPlan, TensorSpec
from split_tool.sessions import Device, open_session, session_options
from split_tool.values import Feeds, from_ort, to_ort

OrtValues = Mapping[str, ort.OrtValue]


class Chain:
    """Sessions of consecutive blocks; values go from one to the next as OrtValues, without a host copy."""

    def __init__(self, files: Sequence[Path | ModelProto], device: Device, *, is_optimised: bool) -> None:
        """Load the blocks.

        Args:
            files: Block files in run order.
            device: Where they run.
            is_optimised: The blocks come from an optimised graph and load with graph optimisation off.

        Raises:
            ModelRefusedError: If ONNX Runtime cannot load a block.
        """
        self._sessions = [
            open_session(file, device, session_options(device, optimise=not is_optimised)) for file in files
        ]
        self._inputs = [[value.name for value in session.get_inputs()] for session in self._sessions]
        self._outputs = [[value.name for value in session.get_outputs()] for session in self._sessions]
        self._dropped = self._find_dropped()

    def run(self, feeds: OrtValues, keep: Sequence[str]) -> dict[str, ort.OrtValue]:
        """The values named in ``keep``; an input that is an output is forwarded."""
        values, _ = self._run(feeds, frozenset(keep))
        return {name: values[name] for name in keep}

    def run_timed(self, feeds: OrtValues, keep: Sequence[str]) -> list[float]:
        """Run once; the time of each block in seconds."""
        return self._run(feeds, frozenset(keep))[1]

    def _run(self, feeds: OrtValues, keep: frozenset[str]) -> tuple[dict[str, ort.OrtValue], list[float]]:
        values = dict(feeds)
        times_s: list[float] = []
        for session, inputs, outputs, dropped in zip(
            self._sessions, self._inputs, self._outputs, self._dropped, strict=True
        ):
            taken = {name: values[name] for name in inputs if name in values}
            begin_s = time.perf_counter()
            made = session.run_with_ort_values(outputs, taken)
            times_s.append(time.perf_counter() - begin_s)
            values.update(zip(outputs, made, strict=True))
            for name in dropped:
                if name not in keep:
                    values.pop(name, None)
        return values, times_s

    def _find_dropped(self) -> list[list[str]]:
        """For each block the values that no later block reads."""
        later: set[str] = set()
        result: list[list[str]] = []
        for inputs, outputs in zip(reversed(self._inputs), reversed(self._outputs), strict=True):
            result.append([name for name in (*inputs, *outputs) if name not in later])
            later.update(inputs)
        return result[::-1]


def feeds_to_ort(feeds: Feeds, specs: Sequence[TensorSpec]) -> dict[str, ort.OrtValue]:
    """The request's values as OrtValues; an absent optional stays absent."""
    return {spec.name: to_ort(feeds[spec.name], spec) for spec in specs if feeds.get(spec.name) is not None}


def run_chain(plan: SplitPlan, folder: Path | str, feeds: Feeds) -> list[Any]:
    """The model's outputs, made by running all blocks of the plan in a row; loads the sessions anew at each call.

    Args:
        plan: The split plan.
        folder: Its folder.
        feeds: For each of ``plan.inputs`` an array of its dtype and shape (text: object array of str), a list of
            arrays for a sequence; an optional input may be left out.

    Returns:
        One value per entry of ``plan.outputs``, in that order, duplicates included: arrays, lists of arrays for
        sequences, None for an empty optional. bfloat16 comes as float32.

    Raises:
        ModelRefusedError: If ONNX Runtime cannot load a block on this machine.
        KeyError: If a required input is missing.
    """
    device = Device(provider=plan.measured_on.provider, num_threads=plan.measured_on.num_threads)
    files = [Path(folder) / block.file for block in plan.blocks]
    chain = Chain(files, device, is_optimised=plan.graph == "optimised")
    names = list(dict.fromkeys(spec.name for spec in plan.outputs))
    values = chain.run(feeds_to_ort(feeds, plan.inputs), names)
    return [from_ort(values[spec.name], spec) for spec in plan.outputs]
