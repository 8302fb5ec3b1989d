"""Finds the cuts: exact partition of estimated costs, real blocks measured, costs corrected, and again."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import onnxruntime as ort

from split_tool.choose import AIM, choose_num_blocks
from split_tool.cutting import Cutting
from split_tool.measure import Measurement, measure
from split_tool.partition import Costs, cuts_ms, longest_by_blocks, partition, thinned
from split_tool.plan import SplitRequest, TradeOff
from split_tool.progress import Report

MAX_ROUNDS = 3
AGREEMENT = 0.03
"""Re-cutting ends when the longest block measures within this share of what was predicted."""

SLACK = 0.05
"""The longest block may be so much longer than need be if that makes the cuts cheaper."""

MAX_AUTO_OVERHEAD = 0.05
MAX_BLOCKS = 64
MAX_PLACES = 1000
"""How many blocks a graph should have is judged by so many places for a cut; where they lie, by all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One way to cut, written and measured.

    Attributes:
        cutting: The graph, with the costs as corrected so far.
        cuts: Positions.
        files: The written blocks.
        measured: Their times.
    """

    cutting: Cutting
    cuts: tuple[int, ...]
    files: tuple[Path, ...]
    measured: Measurement

    @property
    def longest_ms(self) -> float:
        """The longest block as measured."""
        return max(self.measured.block_ms)

    @property
    def quiet_longest_ms(self) -> float:
        """The same without what other processes added."""
        return max(self.measured.quiet_block_ms)

    @property
    def score(self) -> float:
        """What matters of a trial: time of the chain plus the longest block, as shares of the whole; less is better."""
        return self.measured.overhead + self.longest_ms / self.measured.isolated_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What every trial is measured with.

    Attributes:
        whole: Runs the whole model once.
        feeds: Inputs.
        keep: Names of the model outputs.
        budget_s: Seconds per measurement.
        report: Progress.
    """

    whole: Callable[[], object]
    feeds: Mapping[str, ort.OrtValue]
    keep: Sequence[str]
    budget_s: float
    report: Report


def search(
    cutting: Cutting, request: SplitRequest, bench: Bench, work: Path, *, num_blocks: int | None = None
) -> Trial:
    """The best trial for the request.

    Where the number of blocks is the tool's to choose, fewer blocks are tried while the overhead is over 5 %.

    Args:
        cutting: The graph.
        request: What the user wants.
        bench: What to measure with.
        work: Folder for block files.
        num_blocks: Fixed number of blocks, for comparison with a trial of another graph.

    Raises:
        ModelRefusedError: If a block cannot be loaded.
    """
    is_fixed = num_blocks is not None or request.blocks is not None or request.max_block_ms is not None
    if num_blocks is None:
        num_blocks = _wanted_blocks(cutting.costs, request)
    while True:
        trial = _refine(cutting, num_blocks, request, bench, work)
        num_blocks = len(trial.cuts) + 1
        if is_fixed or num_blocks == 1 or trial.measured.overhead <= MAX_AUTO_OVERHEAD:
            return trial
        cutting = trial.cutting
        num_blocks = min(num_blocks - 1, math.ceil(num_blocks * 0.7))


def _wanted_blocks(costs: Costs, request: SplitRequest) -> int:
    if request.blocks is not None:
        return min(request.blocks, MAX_BLOCKS)
    costs = thinned(costs, MAX_PLACES)
    longest_ms = longest_by_blocks(costs, MAX_BLOCKS)
    return choose_num_blocks(request, longest_ms, lambda count: cuts_ms(costs, _cheap_cuts(costs, count, request)))


def _cheap_cuts(costs: Costs, num_blocks: int, request: SplitRequest) -> tuple[int, ...]:
    """The cheapest cuts whose longest block is within the wanted one, or near the smallest that is possible."""
    near_ms = (1 + SLACK) * longest_by_blocks(costs, num_blocks)[-1]
    return partition(costs, num_blocks, bound_ms=max(near_ms, AIM * (request.max_block_ms or 0.0)))


def _refine(cutting: Cutting, num_blocks: int, request: SplitRequest, bench: Bench, work: Path) -> Trial:
    """Cut, measure and correct until predicted and measured times agree, or the cuts repeat."""
    best: Trial | None = None
    tried: set[tuple[int, ...]] = set()
    for attempt in range(MAX_ROUNDS):
        cuts = _cheap_cuts(cutting.costs, num_blocks, request)
        if cuts in tried:
            break
        tried.add(cuts)
        trial = _try(cutting, cuts, bench, work / f"trial-{num_blocks}-{attempt}", attempt)
        if best is None or _rank(trial, request) < _rank(best, request):
            best, loser = trial, best
        else:
            loser = trial
        if loser is not None:
            shutil.rmtree(loser.files[0].parent)
        predicted_ms = max(cutting.costs.block_ms(*ends) for ends in _ends(cutting, cuts))
        cutting = corrected(cutting, cuts, trial.measured.quiet_block_ms)
        wanted = num_blocks if request.max_block_ms is None else _wanted_blocks(cutting.costs, request)
        agrees = abs(trial.quiet_longest_ms - predicted_ms) <= AGREEMENT * predicted_ms
        if agrees and attempt > 0 and wanted == num_blocks:
            break
        num_blocks = wanted
    assert best is not None
    return replace(best, cutting=cutting)


def _rank(trial: Trial, request: SplitRequest) -> tuple[float, int]:
    """Less is better: the longest block as far as it is over what was asked for, then the number of blocks."""
    return max(trial.quiet_longest_ms, request.max_block_ms or 0.0), len(trial.cuts)


def _try(cutting: Cutting, cuts: tuple[int, ...], bench: Bench, folder: Path, attempt: int) -> Trial:
    kind = "optimised" if cutting.target.is_optimised else "user's"
    bench.report(f"{kind} graph, {len(cuts) + 1} blocks, round {attempt + 1}: writing", 0.0)
    files = cutting.write(cuts, folder)
    chain = cutting.load(files)
    phase = f"{kind} graph, {len(cuts) + 1} blocks, round {attempt + 1}: measuring"
    measured = measure(
        bench.whole,
        chain,
        bench.feeds,
        bench.keep,
        budget_s=bench.budget_s,
        on_round=lambda share: bench.report(phase, share),
    )
    return Trial(cutting=cutting, cuts=cuts, files=tuple(files), measured=measured)


def trade_off(trial: Trial) -> tuple[TradeOff, ...]:
    """What other numbers of blocks would give, from the same measurements.

    Step costs are as corrected by the measured blocks; costs of cuts are scaled so that they add up to the overhead
    that was measured. One to about twice as many blocks as were made.
    """
    estimated_ms, chosen = cuts_ms(trial.cutting.costs, trial.cuts), len(trial.cuts) + 1
    costs = thinned(trial.cutting.costs, MAX_PLACES)
    measured_ms = max(trial.measured.overhead, 0.0) * trial.measured.isolated_ms
    scale = measured_ms / estimated_ms if estimated_ms > 0 else 1.0
    points: list[TradeOff] = []
    for count, longest_ms in enumerate(longest_by_blocks(costs, min(2 * chosen + 2, MAX_BLOCKS)), start=1):
        if count == chosen:
            points.append(TradeOff(blocks=count, longest_ms=trial.longest_ms, overhead=trial.measured.overhead))
            continue
        added_ms = scale * cuts_ms(costs, partition(costs, count, bound_ms=(1 + SLACK) * longest_ms))
        points.append(TradeOff(blocks=count, longest_ms=longest_ms, overhead=added_ms / trial.measured.isolated_ms))
    return tuple(points)


def corrected(cutting: Cutting, cuts: Sequence[int], block_ms: Sequence[float]) -> Cutting:
    """Step costs scaled, block by block, so that they add up to what was measured."""
    step_ms = list(cutting.costs.step_ms)
    for (start, stop), measured_ms in zip(_ends(cutting, cuts), block_ms, strict=True):
        steps_ms = sum(step_ms[start:stop])
        around_ms = cutting.costs.block_ms(start, stop) - steps_ms
        if steps_ms > 0:
            factor = max(measured_ms - around_ms, 0.1 * measured_ms) / steps_ms
            step_ms[start:stop] = [time_ms * factor for time_ms in step_ms[start:stop]]
    return cutting.with_costs(step_ms)


def _ends(cutting: Cutting, cuts: Sequence[int]) -> list[tuple[int, int]]:
    places = [0, *cuts, cutting.graph.num_steps]
    return list(pairwise(places))
