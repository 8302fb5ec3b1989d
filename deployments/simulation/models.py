"""Model times from split plans, from a small table on the command line, or from the paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from deployments.simulation.errors import ModelTableError
from deployments.simulation.workload import SimulatedModel
from split_tool.plan import SplitPlan

PAPER_MODELS_MS: Mapping[str, float] = {
    "squeezenetv1": 7.35,
    "vgg19": 47.09,
    "googlenet": 8.97,
    "yolov2": 6.18,
    "resnet50": 19.11,
}
"""Isolated times of SPLIT (ICPP 2023) on its GPU, in milliseconds."""


def paper_models() -> dict[str, SimulatedModel]:
    """The five models of the paper, not split."""
    return models_from_times({name: time_ms / 1e3 for name, time_ms in PAPER_MODELS_MS.items()})


def models_from_times(isolated_s: Mapping[str, float]) -> dict[str, SimulatedModel]:
    """Models that are not split, from their isolated times in seconds."""
    return {
        name: SimulatedModel(name=name, isolated_s=time_s, block_times_s=(time_s,))
        for name, time_s in isolated_s.items()
    }


def models_from_table(text: str) -> dict[str, SimulatedModel]:
    """Models from ``name=milliseconds`` separated by commas.

    Raises:
        ModelTableError: If an entry is not of this form.
    """
    isolated_s = {}
    for name, value in _entries(text):
        try:
            time_ms = float(value)
        except ValueError as error:
            raise ModelTableError(text, f"{name}={value}: needed is a time in milliseconds") from error
        if not 0.0 < time_ms < float("inf"):
            raise ModelTableError(text, f"{name}={value}: needed is a time in milliseconds above 0")
        isolated_s[name] = time_ms / 1e3
    return models_from_times(isolated_s)


def models_from_plans(folders: Iterable[Path]) -> dict[str, SimulatedModel]:
    """Models from split plans, with the block times measured there: what cutting costs is in them.

    Raises:
        PlanNotFoundError: If a folder has no plan.
        PlanInvalidError: If it has no valid one.
    """
    models = {}
    for folder in folders:
        plan = SplitPlan.load(folder)
        models[plan.model] = SimulatedModel(
            name=plan.model,
            isolated_s=plan.isolated_ms / 1e3,
            block_times_s=tuple(block.time_ms / 1e3 for block in plan.blocks),
        )
    return models


def split_evenly(
    models: Mapping[str, SimulatedModel], text: str, *, cut_overhead_s: float
) -> dict[str, SimulatedModel]:
    """The models in blocks of equal time.

    Args:
        models: By name.
        text: ``whole``, or ``name=blocks`` separated by commas; the name ``others`` stands for all not named.
        cut_overhead_s: What each cut adds to a model, in seconds.

    Raises:
        ModelTableError: If an entry is not of this form, or names no model.
    """
    if text == "whole":
        return {name: model.whole() for name, model in models.items()}
    num_blocks: dict[str, int] = {}
    for name, value in _entries(text):
        if name not in models and name != "others":
            raise ModelTableError(text, f"no model {name!r}; known are {', '.join(models)}, and others")
        if not value.isdecimal() or int(value) < 1:
            raise ModelTableError(text, f"{name}={value}: needed is a number of blocks of at least 1")
        num_blocks[name] = int(value)
    others = num_blocks.pop("others", 1)
    return {name: model.in_even_blocks(num_blocks.get(name, others), cut_overhead_s) for name, model in models.items()}


def _entries(text: str) -> list[tuple[str, str]]:
    entries = []
    for entry in text.split(","):
        name, equals, value = entry.strip().partition("=")
        if not name or not equals:
            raise ModelTableError(text, f"{entry!r} has not the form name=value")
        entries.append((name, value))
    return entries
