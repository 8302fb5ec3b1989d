"""Blocks on the device beside the whole model: the same result as on the processor, and what splitting costs."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deployments.runtime.backends.interface import LoadedBlocks
from deployments.runtime.backends.table import backend_of
from deployments.runtime.inputs import sample_inputs
from deployments.runtime.settings import DeviceSettings
from split_tool.plan import SplitPlan

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFigures:
    """One model on the device.

    Attributes:
        model: Its name.
        difference: Largest difference of an output from the whole model on the processor, as a share of the output's
            largest value.
        whole_s: Median time of the whole model, inputs and outputs brought to and from the device.
        overhead: What the blocks take longer, median over the rounds of chain / whole - 1.
        block_times_s: Median time of each block.
        memory_bytes: Device memory that the blocks are known to take.
    """

    model: str
    difference: float
    whole_s: float
    overhead: float
    block_times_s: tuple[float, ...]
    memory_bytes: int


def chain_figures(folder: Path, device: DeviceSettings, *, seconds: float) -> ChainFigures:
    """Compare and measure the plan in ``folder``; whole model and blocks run in turns for about ``seconds``.

    Raises:
        RuntimeServingError: If the device cannot run it.
    """
    plan = SplitPlan.load(folder)
    inputs = random_inputs(plan)
    backend = backend_of(device)
    expected, _ = run_once(_load(plan, folder, DeviceSettings(), is_split=False), inputs)
    whole, chain = (_load(plan, folder, device, is_split=is_split) for is_split in (False, True))
    outputs, _ = run_once(chain, inputs)
    whole_s: list[float] = []
    chain_s: list[float] = []
    blocks_s: list[list[float]] = []
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s or len(whole_s) < 5:
        whole_s.append(_timed(whole, inputs)[0])
        total_s, times_s = _timed(chain, inputs)
        chain_s.append(total_s)
        blocks_s.append(times_s)
    figures = ChainFigures(
        model=plan.model,
        difference=max(_difference(outputs[name], expected[name]) for name in expected),
        whole_s=statistics.median(whole_s[2:]),
        overhead=statistics.median(c / w - 1 for c, w in zip(chain_s[2:], whole_s[2:], strict=True)),
        block_times_s=tuple(statistics.median(times_s) for times_s in zip(*blocks_s[2:], strict=True)),
        memory_bytes=sum(backend.memory_bytes(plan, folder, device, is_split=True)),
    )
    whole.close()
    chain.close()
    return figures


def random_inputs(plan: SplitPlan) -> Arrays:
    """Seeded random numbers for every input.

    Raises:
        ValueError: If an input is no tensor of numbers of known rank.
    """
    samples = sample_inputs(plan.inputs)
    if samples is None:
        raise ValueError(f"inputs of {plan.model!r} have no fixed shape: measure another model")
    random = np.random.default_rng(0)
    return {name: random.random(array.shape).astype(array.dtype) for name, array in samples.items()}


def run_once(blocks: LoadedBlocks[Any], inputs: Arrays) -> tuple[Arrays, list[float]]:
    """Outputs of the model, and the time of each block in seconds."""
    values, times_s = blocks.start(inputs), []
    for block in range(blocks.num_blocks):
        began_s = time.perf_counter()
        blocks.run_block(block, values)
        times_s.append(time.perf_counter() - began_s)
    return blocks.finish(values), times_s


def _timed(blocks: LoadedBlocks[Any], inputs: Arrays) -> tuple[float, list[float]]:
    began_s = time.perf_counter()
    _, times_s = run_once(blocks, inputs)
    return time.perf_counter() - began_s, times_s


def _load(plan: SplitPlan, folder: Path, device: DeviceSettings, *, is_split: bool) -> LoadedBlocks[Any]:
    return backend_of(device).load(plan, folder, device, is_split=is_split)


def _difference(found: np.ndarray, expected: np.ndarray) -> float:
    scale = float(np.abs(expected).max()) or 1.0
    return float(np.abs(found.astype(np.float64) - expected).max()) / scale
