"""Blocks as OpenCL kernels that were compiled beforehand, with the intermediates kept in device memory; a ``Backend``.

Needs pyopencl alone. A block that the compiler, or the check at the start, found unfit runs on ONNX Runtime on the
processor, with a copy there and back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deployments.runtime.errors import DeviceUnavailableError, PlanNotForDeviceError
from deployments.runtime.settings import DeviceSettings
from opencl_runner.errors import CompiledPlanInvalidError, CompiledPlanNotFoundError, NoOpenClDeviceError
from opencl_runner.plan import CompiledPlan, Launches, find_compiled
from split_tool.plan import SplitPlan


def check_plan(plan: SplitPlan, folder: Path, device: DeviceSettings) -> None:
    """See ``Backend``: there must be compiled blocks, made from the blocks of this plan."""
    _compiled_plan(plan, folder, device)


def memory_bytes(plan: SplitPlan, folder: Path, device: DeviceSettings, *, is_split: bool) -> tuple[int, ...]:
    """See ``Backend``: weights, working memory, and what the block reads and gives, once."""
    compiled_folder, compiled = _compiled_plan(plan, folder, device)
    each = tuple(
        block.file_bytes if compiled_block.folder is None else _bytes_of(compiled_folder / compiled_block.folder)
        for block, compiled_block in zip(plan.blocks, compiled.blocks, strict=True)
    )
    return each if is_split else (sum(each),)


def load(plan: SplitPlan, folder: Path, device: DeviceSettings, *, is_split: bool) -> Any:
    """See ``Backend``; unsplit, all blocks run in a row as one."""
    compiled_folder, compiled = _compiled_plan(plan, folder, device)
    try:
        from deployments.runtime.backends.opencl_chain import OpenClChain
    except ModuleNotFoundError as error:
        raise DeviceUnavailableError(
            f"device {device.device} needs {error.name}: pip install 'dlir-serve[opencl]'"
        ) from error
    try:
        return OpenClChain(plan, folder, compiled, compiled_folder, device, is_split=is_split)
    except NoOpenClDeviceError as error:
        raise DeviceUnavailableError(f"device {device.device}: {error}") from error
    except CompiledPlanInvalidError as error:
        raise PlanNotForDeviceError(str(error)) from error


def _compiled_plan(plan: SplitPlan, folder: Path, device: DeviceSettings) -> tuple[Path, CompiledPlan]:
    target = device.options.get("target")
    try:
        compiled_folder = find_compiled(folder, target)
        compiled = CompiledPlan.load(compiled_folder)
    except (CompiledPlanNotFoundError, CompiledPlanInvalidError) as error:
        raise PlanNotForDeviceError(f"device {device.device}: {error}") from error
    if compiled.block_sha256 != tuple(block.sha256 for block in plan.blocks):
        raise PlanNotForDeviceError(
            f"{compiled_folder} was compiled from other blocks than the plan in {folder} has: compile it again with "
            f"'python -m split_tool compile {folder} --target {compiled.target}'"
        )
    return compiled_folder, compiled


def _bytes_of(folder: Path) -> int:
    return sum(piece.num_bytes for piece in Launches.load(folder).memory)
