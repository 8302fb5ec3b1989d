"""Makes plans of a model that is not split, in a process of its own; measured runs take turns on the device."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import msgspec

from deployments.runtime.allocator_actor import find_socket
from deployments.runtime.backends.providers import PROVIDERS
from deployments.runtime.backends.table import backend_of
from deployments.runtime.inputs import sample_inputs
from deployments.runtime.turns import TurnTaker
from serve_app.unsplit import Unsplit
from split_tool.errors import ModelRefusedError
from split_tool.folders import existing_plan, written_aside
from split_tool.machine import describe_machine, is_same_machine
from split_tool.plan import (
    SCHEMA_VERSION,
    WHOLE_MODEL_FILE,
    Block,
    ExternalFile,
    Proof,
    SplitPlan,
    SplitRequest,
    sha256_of_file,
)
from split_tool.sessions import Device
from split_tool.source import Source, read_source
from split_tool.splitting import split

_NICENESS = 10
_GUESS_MS = 10.0
_NUM_RUNS = 2


class Splitter:
    """The actor of one model: ``find_plan`` takes seconds, ``split`` as long as it takes."""

    def __init__(self, unsplit: Unsplit) -> None:
        """Nothing is done yet."""
        self._unsplit = unsplit
        self._blocks, self._whole = unsplit.folder / "blocks", unsplit.folder / "whole"
        self._lock = threading.Lock()
        self._progress = "begins"

    def find_plan(self) -> str:
        """Folder of the plan in blocks if there is one that fits this machine, else of one that is made now.

        Raises:
            SplitToolError: If the model cannot be read.
            RuntimeServingError: If its device is not there.
        """
        if self._unsplit.device.kind not in PROVIDERS:
            raise ModelRefusedError(
                f"device {self._unsplit.device.device} runs compiled blocks only: split {self._unsplit.source} with "
                "'python -m split_tool split --graph user' into the repository and compile it (docs/tvm.md)"
            )
        if self._is_split():
            return str(self._blocks)
        with self._lock:
            if existing_plan(self._whole) is None:
                _write_whole(self._unsplit, self._whole)
        return str(self._whole)

    def split(self) -> str:
        """Split the model unless that is done; gives the folder of the plan. Measured runs wait behind all requests.

        Raises:
            SplitToolError, RuntimeServingError: If it cannot be split.
        """
        unsplit, device = self._unsplit, self._unsplit.device
        if device.kind != "cpu":
            raise ModelRefusedError(f"the split tool measures on processors, not on {device.device}")
        with self._lock:
            if self._is_split():
                return str(self._blocks)
            os.nice(_NICENESS)
            with TurnTaker(f"split_{unsplit.model}", device, lambda: find_socket(device)) as taker:
                split(
                    unsplit.source,
                    self._blocks,
                    name=unsplit.model,
                    max_block_ms=unsplit.max_block_ms,
                    num_threads=device.threads,
                    report=self._report,
                    turn=taker.turn,
                    force=True,
                )
        return str(self._blocks)

    def progress(self) -> str:
        """What is done right now, for people."""
        return self._progress

    def _report(self, phase: str, share: float) -> None:
        self._progress = f"{phase}, {share:.0%}"

    def _is_split(self) -> bool:
        plan = existing_plan(self._blocks)
        here = describe_machine(Device(num_threads=self._unsplit.device.threads))
        return plan is not None and plan.request == _request(self._unsplit) and is_same_machine(plan.measured_on, here)


def _request(unsplit: Unsplit) -> SplitRequest:
    return SplitRequest(max_block_ms=unsplit.max_block_ms)


def _write_whole(unsplit: Unsplit, out: Path) -> None:
    """A plan whose one block is the model itself, with a time measured in a turn of its own."""
    source = read_source(unsplit.source)
    with written_aside(out) as (made, _):
        for name in (WHOLE_MODEL_FILE, *source.external_files):
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(unsplit.source.parent / name, made / name)
        plan = _whole_plan(unsplit, source, _GUESS_MS)
        time_ms = _measured_ms(unsplit, plan, made)
        blocks = (msgspec.structs.replace(plan.blocks[0], time_ms=time_ms),)
        msgspec.structs.replace(plan, isolated_ms=time_ms, chain_ms=time_ms, blocks=blocks).save(made)


def _measured_ms(unsplit: Unsplit, plan: SplitPlan, folder: Path) -> float:
    """Time of the last of some runs; a guess where no inputs can be made."""
    inputs = sample_inputs(plan.inputs)
    if inputs is None:
        return _GUESS_MS
    device = unsplit.device
    backend = backend_of(device)
    memory_bytes = sum(backend.memory_bytes(plan, folder, device, is_split=False))
    time_ms = _GUESS_MS
    with TurnTaker(
        f"load_{unsplit.model}", device, lambda: find_socket(device), priority=1, memory_bytes=memory_bytes
    ) as taker:
        chain = backend.load(plan, folder, device, is_split=False)
        for _ in range(_NUM_RUNS):
            with taker.turn():
                begin_s = time.perf_counter()
                values = chain.start(inputs)
                chain.run_block(0, values)
                time_ms = (time.perf_counter() - begin_s) * 1e3
    return time_ms


def _whole_plan(unsplit: Unsplit, source: Source, time_ms: float) -> SplitPlan:
    names = tuple(dict.fromkeys(spec.name for spec in source.outputs))
    block = Block(
        file=WHOLE_MODEL_FILE,
        sha256=source.sha256,
        inputs=tuple(spec.name for spec in source.inputs),
        outputs=names,
        num_nodes=len(source.model.graph.node),
        time_ms=time_ms,
        file_bytes=unsplit.source.stat().st_size,
    )
    device = Device(provider=PROVIDERS[unsplit.device.kind].name, num_threads=unsplit.device.threads)
    return SplitPlan(
        schema_version=SCHEMA_VERSION,
        model=unsplit.model,
        source_sha256=source.sha256,
        inputs=source.inputs,
        outputs=source.outputs,
        graph="user",
        isolated_ms=time_ms,
        chain_ms=time_ms,
        blocks=(block,),
        cuts=(),
        measured_on=describe_machine(device),
        proof=Proof(
            verdict="bit-identical",
            num_samples=0,
            seed=0,
            max_abs_difference=0.0,
            max_rel_difference=0.0,
            tolerances=(),
            cause=None,
        ),
        notes=("not split: the one block is the model itself",),
        request=_request(unsplit),
        external_files=tuple(
            ExternalFile(path=name, sha256=sha256_of_file(unsplit.source.parent / name))
            for name in source.external_files
        ),
    )
