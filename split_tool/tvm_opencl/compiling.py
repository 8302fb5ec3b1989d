"""Compiles all blocks of a split plan for one target, checks each, and says which way each is served."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from opencl_runner.checking import save_values
from opencl_runner.device import Device, open_device
from opencl_runner.errors import NoOpenClDeviceError
from opencl_runner.plan import COMPILED_FOLDER, PROGRAMS_FOLDER, SCHEMA_VERSION, CompiledBlock, CompiledPlan
from split_tool.folders import written_aside
from split_tool.plan import SplitPlan
from split_tool.tvm_opencl.attempts import Attempt, Attempts, Options
from split_tool.tvm_opencl.compiler import Compiler
from split_tool.tvm_opencl.errors import PlanNotCompilableError
from split_tool.tvm_opencl.references import reference_values
from split_tool.tvm_opencl.store import CompiledStore
from split_tool.tvm_opencl.supervise import compiler_version
from split_tool.tvm_opencl.targets import Target, ladder

Report = Callable[[str], None]


def compile_plan(folder: Path, target: str, options: Options, report: Report = lambda _line: None) -> CompiledPlan:
    """Compile the plan in ``folder`` into ``folder/compiled/TARGET``.

    Every block is compared with ONNX Runtime on the OpenCL device of this machine; one that fails goes down the ladder
    textures, buffers, ONNX Runtime. Without a device nothing is compared here, only where it is served.

    Args:
        folder: A plan folder.
        target: Name in ``targets.TARGETS``.
        options: How.
        report: Called with a line for people after each step.

    Raises:
        PlanNotFoundError, PlanInvalidError, PlanMismatchError: See ``SplitPlan``.
        PlanNotCompilableError: If it was cut from the graph that ONNX Runtime had optimised.
        CompilerMissingError: If TVM is not there.
        OptionError: If there is no such target.
    """
    rungs = ladder(target)
    compiler = compiler_version()
    plan = SplitPlan.load(folder)
    plan.check_files(folder)
    if plan.graph == "optimised":
        raise PlanNotCompilableError(
            f"{folder} was cut from the graph that ONNX Runtime had optimised for a processor, which no other compiler "
            f"reads: split it once more with 'python -m split_tool split {folder / 'model.onnx'} --graph user "
            f"--name {plan.model} --out OTHER_FOLDER' and compile that"
        )
    values = reference_values(plan, folder)
    out = folder / COMPILED_FOLDER / target
    with written_aside(out) as (made, scratch):
        attempts = Attempts(
            plan=plan,
            folder=folder,
            values=values,
            device=_try_open(options.device, report),
            compiler=Compiler(
                store=CompiledStore(options.cache or folder.absolute().parent / ".cache" / "compiled", compiler),
                limit_s=options.limit_s,
            ),
            options=options,
            scratch=scratch,
        )
        blocks = _go_down(attempts, rungs, made, report)
        save_values(made, values)
        if (out / PROGRAMS_FOLDER).is_dir():
            shutil.copytree(out / PROGRAMS_FOLDER, made / PROGRAMS_FOLDER)
        compiled = CompiledPlan(
            schema_version=SCHEMA_VERSION,
            target=target,
            compiler=compiler,
            block_sha256=tuple(block.sha256 for block in plan.blocks),
            input_shapes={spec.name: values[spec.name].shape for spec in plan.inputs if spec.name in values},
            checked_on=attempts.device.name if attempts.device is not None else None,
            blocks=tuple(blocks),
            measured_ms=attempts.measured_ms,
        )
        compiled.save(made)
    return compiled


def _try_open(index: int, report: Report) -> Device | None:
    try:
        return open_device(index)
    except NoOpenClDeviceError as error:
        report(f"not checked here: {error}")
        return None


def _go_down(attempts: Attempts, rungs: Sequence[Target], made: Path, report: Report) -> list[CompiledBlock]:
    """Each block at the first rung where it works, its files in ``made``; ONNX Runtime is the last one."""
    num_blocks = len(attempts.plan.blocks)
    blocks: dict[int, CompiledBlock] = {}
    reasons: dict[int, list[str]] = {number: [] for number in range(num_blocks)}
    for rung in rungs:
        pending = [number for number in range(num_blocks) if number not in blocks]
        for number, attempt in attempts.compile(rung, pending).items():
            reason = attempt.reason
            if reason is not None:
                reasons[number].append(f"{rung.name}: {reason}")
                report(f"block {number}: {reasons[number][-1]}")
                continue
            folder = f"block_{number:02}"
            attempt.folder.rename(made / folder)
            blocks[number] = _record(attempt, rung, folder, reasons[number])
            report(f"block {number}: {blocks[number].num_launches} kernels on {blocks[number].served_by}")
    return [
        blocks.get(number) or CompiledBlock(served_by="onnxruntime", folder=None, reasons=tuple(reasons[number]))
        for number in range(num_blocks)
    ]


def _record(attempt: Attempt, rung: Target, folder: str, reasons: Sequence[str]) -> CompiledBlock:
    assert attempt.launches is not None
    return CompiledBlock(
        served_by=rung.served_by,
        folder=folder,
        reasons=tuple(reasons),
        max_rel_error=attempt.max_rel_error,
        num_launches=attempt.launches.num_launches,
        num_textures=attempt.launches.num_textures,
        compile_s=attempt.made.compile_s,
        winograd=len(attempt.made.winograd),
    )
