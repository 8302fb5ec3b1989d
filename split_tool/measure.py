"""Times of real blocks: warm, whole model and chain interleaved, so that both see the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime as ort

from split_tool.chain import Chain
from split_tool.turns import turn

WARM_UP_RUNS = 2

MIN_TIME_MS = 1e-6
"""No run counts as free: a coarse clock does not see short ones, and shares of nothing mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Times of one chain beside its whole model, all in ms.

    Attributes:
        isolated_ms: Median of the whole model.
        chain_ms: Median of all blocks in a row.
        block_ms: Median of each block.
        quiet_block_ms: Lower quartile of each block: what searching goes by, since other processes only add time.
        overhead: Median over the rounds of chain / whole - 1.
        spread: Distance of the quartiles of the whole model's times, as a share of their median: what else ran then.
    """

    isolated_ms: float
    chain_ms: float
    block_ms: tuple[float, ...]
    quiet_block_ms: tuple[float, ...]
    overhead: float
    spread: float


def measure(
    whole: Callable[[], object],
    chain: Chain,
    feeds: Mapping[str, ort.OrtValue],
    keep: Sequence[str],
    *,
    budget_s: float,
    min_rounds: int = 5,
    max_rounds: int = 60,
    on_round: Callable[[float], None] = lambda share: None,
) -> Measurement:
    """Run whole and chain in turns for about ``budget_s``.

    Args:
        whole: Runs the whole model once.
        chain: The blocks.
        feeds: Inputs of both.
        keep: Model outputs.
        budget_s: Stop after the round that passes this, but not before ``min_rounds``.
        min_rounds: At least so many rounds.
        max_rounds: At most so many.
        on_round: Told the share of the work that is done.
    """
    for _ in range(WARM_UP_RUNS):
        with turn():
            whole()
        chain.run_timed(feeds, keep)
    wholes_s: list[float] = []
    blocks_s: list[list[float]] = []
    begin_s = time.perf_counter()
    while len(wholes_s) < min_rounds or (len(wholes_s) < max_rounds and time.perf_counter() - begin_s < budget_s):
        if len(wholes_s) % 2:
            blocks_s.append(chain.run_timed(feeds, keep))
        with turn():
            run_s = chain.clock()
            whole()
            wholes_s.append(chain.clock() - run_s)
        if len(blocks_s) < len(wholes_s):
            blocks_s.append(chain.run_timed(feeds, keep))
        passed = (time.perf_counter() - begin_s) / max(budget_s, MIN_TIME_MS)
        on_round(min(1.0, max(len(wholes_s) / max_rounds, passed)))
    blocks = np.maximum(np.asarray(blocks_s) * 1000, MIN_TIME_MS)
    chains = blocks.sum(axis=1)
    isolated = np.maximum(np.asarray(wholes_s) * 1000, MIN_TIME_MS)
    return Measurement(
        isolated_ms=float(np.median(isolated)),
        chain_ms=float(np.median(chains)),
        block_ms=tuple(float(value) for value in np.median(blocks, axis=0)),
        quiet_block_ms=tuple(float(value) for value in np.quantile(blocks, 0.25, axis=0)),
        overhead=float(np.median(chains / isolated) - 1),
        spread=float((np.quantile(isolated, 0.75) - np.quantile(isolated, 0.25)) / np.median(isolated)),
    )
