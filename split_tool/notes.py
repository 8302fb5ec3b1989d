"""Plain sentences for people about a finished split: bounds, and what splitting cost."""

from __future__ import annotations

from collections import Counter

from split_tool.plan import SplitRequest
from split_tool.search import MAX_BLOCKS, Trial

SHARED_BYTES = 1_000_000
"""Weights copied into several blocks are mentioned from this size on."""

BUSY_SPREAD = 0.15
"""Times of the whole model that vary more than this were measured on a machine that did something else as well."""

NEAR = 0.8
"""An operator of at least this share of the wanted block is named as what sets the longest one."""

HEAVY_STEP = 0.4
"""An operator that takes at least this share of the model is named."""


def notes_for(trial: Trial, request: SplitRequest) -> tuple[str, ...]:
    """The notes of a plan, the most important first."""
    return (
        *_count_notes(trial, request),
        *_slice_notes(trial),
        *_floor_notes(trial, request),
        *_weight_notes(trial),
        *_quiet_notes(trial),
    )


def _count_notes(trial: Trial, request: SplitRequest) -> list[str]:
    num_blocks = len(trial.cuts) + 1
    places = len(trial.cutting.costs.positions)
    if request.blocks is not None and num_blocks < request.blocks:
        why = f"there are only {places} places for a cut" if places else "there is no place for a cut"
        why = "more are never made" if num_blocks == MAX_BLOCKS else why
        return [f"{request.blocks} blocks were asked for, {num_blocks} made: {why}"]
    if num_blocks == 1 and request.blocks is None and request.max_block_ms is None:
        return [f"not split: no cut paid ({trial.measured.isolated_ms:.2f} ms in all)"]
    return []


def _slice_notes(trial: Trial) -> list[str]:
    sliced = trial.cutting.sliced
    if not sliced:
        return []
    kinds = Counter((operator.op_type, operator.axis, operator.num_slices) for operator in sliced)
    parts = [f"{count} {kind} in {num} by {axis}" for (kind, axis, num), count in sorted(kinds.items())]
    return [f"sliced inside, because they take longer than a block may: {', '.join(parts)}"]


def _floor_notes(trial: Trial, request: SplitRequest) -> list[str]:
    costs, graph = trial.cutting.costs, trial.cutting.graph
    if not costs.step_ms:
        return []
    step = max(range(len(costs.step_ms)), key=lambda index: costs.step_ms[index])
    node = trial.cutting.target.model.graph.node[graph.steps[step]]
    share = costs.step_ms[step] / sum(costs.step_ms)
    named = f"{node.op_type} giving {node.output[0]!r}"
    limit = request.max_block_ms
    if limit is not None and trial.longest_ms > limit:
        why = f"no cut gets below the largest operator or part of one ({named}, {costs.step_ms[step]:.2f} ms)"
        if costs.step_ms[step] < NEAR * limit:
            why = "what a cut costs, or how times vary, leaves no shorter ones"
        return [f"blocks of {limit:g} ms cannot be reached: the longest is {trial.longest_ms:.2f} ms, and {why}"]
    if share >= HEAVY_STEP and len(costs.step_ms) > 1:
        return [f"one operator ({named}) takes {share:.0%} of the time: no cut between operators gets below it"]
    return []


def _weight_notes(trial: Trial) -> list[str]:
    parts = trial.cutting.parts(trial.cuts)
    uses = Counter(name for block in parts for name in block.constants)
    sizes = {tensor.name: tensor.ByteSize() for tensor in trial.cutting.target.model.graph.initializer}
    copied = sum(sizes.get(name, 0) * (count - 1) for name, count in uses.items())
    if copied < SHARED_BYTES:
        return []
    return [f"weights that several blocks read are stored once per block: {copied / 1e6:.1f} MB more than in one file"]


def _quiet_notes(trial: Trial) -> list[str]:
    spread = trial.measured.spread
    if spread <= BUSY_SPREAD:
        return []
    return [f"measured on a busy machine (the whole model's times vary by {spread:.0%}): split again when it is quiet"]
