"""Does a block compute what ONNX Runtime computed when it was compiled? Compilers and drivers get it wrong silently."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np

from opencl_runner.block import Block
from opencl_runner.device import Device
from opencl_runner.errors import CompiledPlanInvalidError
from opencl_runner.memory import allocate, download, upload
from opencl_runner.plan import CHECK_FILE

MAX_REL_ERROR = 1e-5
"""Largest difference over the largest value that a block may have."""

Arrays = Mapping[str, np.ndarray]


def save_values(folder: Path, values: Arrays) -> None:
    """Keep every value that crosses a cut, for checks on the machine that serves."""
    np.savez(folder / CHECK_FILE, allow_pickle=False, **{quote(name, safe=""): array for name, array in values.items()})


def load_values(folder: Path) -> dict[str, np.ndarray]:
    """What ``save_values`` has kept.

    Raises:
        CompiledPlanInvalidError: If it cannot be read.
    """
    try:
        with np.load(folder / CHECK_FILE, allow_pickle=False) as archive:
            return {unquote(name): archive[name] for name in archive.files}
    except (OSError, ValueError) as error:
        raise CompiledPlanInvalidError(f"{folder / CHECK_FILE} cannot be read ({error}): compile again") from error


def run_once(block: Block, device: Device, inputs: Arrays) -> dict[str, np.ndarray]:
    """The block's outputs for inputs in host memory."""
    launches = block.launches
    values = {name: allocate(device, block.piece(name)) for name in (*launches.inputs, *launches.outputs)}
    for name in launches.inputs:
        upload(device, values[name], block.piece(name), inputs[name].astype(block.piece(name).dtype, copy=False))
    block.run(values)
    return {name: download(device, values[name], block.piece(name)) for name in launches.outputs}


def error_of(block: Block, device: Device, values: Arrays) -> float:
    """Largest difference between the block's outputs and ``values``, over the largest value of that output."""
    return max(relative_error(values[name], output) for name, output in run_once(block, device, values).items())


def relative_error(expected: np.ndarray, got: np.ndarray) -> float:
    """``max |got - expected| / max |expected|``; infinite where shapes, NaNs or integers differ."""
    if expected.shape != got.shape or not expected.size:
        return 0.0 if expected.shape == got.shape else float("inf")
    if expected.dtype.kind not in "f":
        return 0.0 if np.array_equal(expected, got) else float("inf")
    largest = float(np.abs(expected).max())
    difference = float(np.abs(got.astype(np.float64) - expected).max())
    if not np.isfinite(difference):
        return float("inf")
    return difference / largest if largest else (0.0 if difference == 0 else float("inf"))
