"""Runs the blocks of a plan one after another: for proofs, measurements and people without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime as ort
from onnx import ModelProto

from split_tool.plan import SplitPlan, TensorSpec
from split_tool.sessions import Device, open_session, session_options
from split_tool.turns import turn
from split_tool.values import Feeds, from_ort, to_ort

OrtValues = Mapping[str, ort.OrtValue]


@dataclass(slots=True, kw_only=True)
class _Bound:
    """What a block reads and gives, bound for many runs.

    Attributes:
        binding: The runtime's own.
        inputs: Values that are others at each run.
        outputs: The same; without a new binding the runtime would write over the last run's.
        gives_new: Some output is not in a buffer.
    """

    binding: ort.IOBinding
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    gives_new: bool

    def renew(self, values: OrtValues) -> None:
        """Bind anew what differs from run to run."""
        for name in self.inputs:
            self.binding.bind_ortvalue_input(name, values[name])
        for name in self.outputs:
            self.binding.bind_output(name)


class Chain:
    """Sessions of consecutive blocks; values go from one to the next as OrtValues, without a host copy.

    Crossing tensors lie in buffers that are allocated once per combination of input shapes and bound to both blocks:
    letting each run allocate its outputs costs 0.2 ms per cut of a few 100 KB. The bindings stay as well; a run binds
    anew only what the request gives and what it takes away. Model outputs are new at each run. One run at a time: the
    buffers are shared.
    """

    def __init__(
        self,
        blocks: Sequence[Path | ModelProto],
        device: Device,
        *,
        is_optimised: bool,
        external_folder: Path | None = None,
    ) -> None:
        """Load the blocks.

        Args:
            blocks: Block files, or blocks in memory, in run order.
            device: Where they run.
            is_optimised: The blocks come from an optimised graph and load with graph optimisation off.
            external_folder: Where weights lie that blocks in memory refer to.

        Raises:
            ModelRefusedError: If ONNX Runtime cannot load a block.
        """
        self.clock = device.clock
        self._sessions = [
            open_session(
                block,
                device,
                session_options(device, optimise=not is_optimised, shares_arena=True),
                external_folder=external_folder,
            )
            for block in blocks
        ]
        self._inputs = [[value.name for value in session.get_inputs()] for session in self._sessions]
        self._outputs = [[value.name for value in session.get_outputs()] for session in self._sessions]
        self._steady = self._find_steady()
        self._dropped = self._find_dropped()
        self._signature: tuple[object, ...] | None = None
        self._buffers: dict[str, ort.OrtValue] = {}
        self._bound: list[_Bound | None] = [None] * len(self._sessions)

    def run(self, feeds: OrtValues, keep: Sequence[str]) -> dict[str, ort.OrtValue]:
        """The values named in ``keep``; an input that is an output is forwarded."""
        values, _ = self._run(feeds, frozenset(keep))
        return {name: values[name] for name in keep}

    def run_timed(self, feeds: OrtValues, keep: Sequence[str]) -> list[float]:
        """Run once, in one turn; the time of each block in seconds."""
        with turn():
            return self._run(feeds, frozenset(keep))[1]

    def _run(self, feeds: OrtValues, keep: frozenset[str]) -> tuple[dict[str, ort.OrtValue], list[float]]:
        signature = (keep, *_signature(feeds))
        if signature != self._signature:
            self._signature, self._buffers, self._bound = signature, {}, [None] * len(self._sessions)
        values = {**self._buffers, **feeds}
        times_s: list[float] = []
        for index, session in enumerate(self._sessions):
            begin_s = self.clock()
            bound = self._bound[index]
            if bound is None:
                bound = self._bind(index, values, keep)
            else:
                bound.renew(values)
            session.run_with_iobinding(bound.binding)
            if bound.gives_new:
                values.update(zip(self._outputs[index], bound.binding.get_outputs(), strict=True))
            times_s.append(self.clock() - begin_s)
            for name in self._steady[index]:
                if name not in keep:
                    self._buffers.setdefault(name, values[name])
            for name in self._dropped[index]:
                if name not in keep:
                    values.pop(name, None)
        return values, times_s

    def _bind(self, index: int, values: OrtValues, keep: frozenset[str]) -> _Bound:
        """Bind everything a block reads and gives; kept once there is memory for all that it shares with others."""
        binding = self._sessions[index].io_binding()
        steady = [name for name in self._steady[index] if name not in keep]
        for name in self._inputs[index]:
            if name in values:
                binding.bind_ortvalue_input(name, values[name])
        for name in self._outputs[index]:
            if name in steady and name in self._buffers:
                binding.bind_ortvalue_output(name, self._buffers[name])
            else:
                binding.bind_output(name)
        bound = _Bound(
            binding=binding,
            inputs=tuple(name for name in self._inputs[index] if name in values and name not in self._buffers),
            outputs=tuple(name for name in self._outputs[index] if name not in steady),
            gives_new=True,
        )
        if all(name in self._buffers for name in steady):
            bound.gives_new = bool(bound.outputs)
            self._bound[index] = bound
        return bound

    def _find_steady(self) -> list[list[str]]:
        """For each block the outputs whose shape follows from the shapes of the model's inputs alone."""
        known: set[str] = set()
        made: set[str] = set()
        result: list[list[str]] = []
        for session in self._sessions:
            for value in session.get_inputs():
                if value.name not in made:
                    known.update(dim for dim in value.shape or () if isinstance(dim, str))
            outputs = session.get_outputs()
            made.update(value.name for value in outputs)
            result.append([value.name for value in outputs if _has_steady_shape(value, known)])
        return result

    def _find_dropped(self) -> list[list[str]]:
        """For each block the values that no later block reads."""
        later: set[str] = set()
        result: list[list[str]] = []
        for inputs, outputs in zip(reversed(self._inputs), reversed(self._outputs), strict=True):
            result.append([name for name in (*inputs, *outputs) if name not in later])
            later.update(inputs)
        return result[::-1]


def _has_steady_shape(value: ort.NodeArg, known: set[str]) -> bool:
    """True for numbers in a tensor of known rank, each axis fixed or named by a model input; ``[]`` may be any rank."""
    is_number = value.type.startswith("tensor(") and value.type != "tensor(string)"
    return is_number and bool(value.shape) and all(isinstance(dim, int) or dim in known for dim in value.shape)


def _signature(feeds: OrtValues) -> tuple[object, ...]:
    return tuple((name, tuple(v.shape()) if v.is_tensor() and v.has_value() else None) for name, v in feeds.items())


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
