"""The groups of a chained model: what the configuration asks for, as blocks of the model's plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from deployments.runtime.block_groups import BlockGroup, check_groups
from deployments.runtime.errors import LayoutRefusedError
from deployments.runtime.settings import DeviceSettings
from serve_app.repository import StoredModel
from split_tool.partition import Costs, partition
from split_tool.plan import SplitPlan

_HOP_MS_PER_BYTE = 5e-6
"""What the size of the values adds to a hop (``benchmarks.layouts``); decides where groups of even time are cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedGroup:
    """A group as it is asked for.

    Attributes:
        num_blocks: How many blocks; None: all that are left.
        device: Where they run.
    """

    num_blocks: int | None
    device: DeviceSettings


def chained_groups(
    stored: StoredModel, wanted: int | Sequence[WantedGroup] | None, device: DeviceSettings
) -> tuple[BlockGroup, ...]:
    """The groups of a model on disk.

    Args:
        stored: The model.
        wanted: How many groups, of even run time and hops counted in; or which; None: one for each block.
        device: The model's own, on which the first group runs.

    Raises:
        LayoutRefusedError: If the model is not split, the groups are not its blocks, or a value that crosses between
            them cannot be sent.
        SplitToolError: If its plan cannot be read.
    """
    if not stored.is_split:
        raise LayoutRefusedError(
            f"model {stored.model!r} has no split plan, which layout: chained needs: split it first with 'python -m "
            "split_tool split'"
        )
    plan = SplitPlan.load(stored.folder)
    if wanted is None or isinstance(wanted, int):
        groups = _even_groups(plan, len(plan.blocks) if wanted is None else wanted, device)
    else:
        groups = _stated_groups(plan, wanted)
    check_groups(plan, groups)
    if groups[0].device != device:
        raise LayoutRefusedError(
            f"the first group of {stored.model!r} is on another device ({groups[0].device.device}) than the model "
            f"({device.device}): state the model's device for it, or none"
        )
    return groups


def _even_groups(plan: SplitPlan, num_groups: int, device: DeviceSettings) -> tuple[BlockGroup, ...]:
    num_blocks = len(plan.blocks)
    if num_groups > num_blocks:
        raise LayoutRefusedError(
            f"{num_groups} groups are asked for, the plan of {plan.model!r} has {num_blocks} blocks: ask for fewer"
        )
    costs = Costs(
        step_ms=tuple(block.time_ms for block in plan.blocks),
        positions=tuple(range(1, num_blocks)),
        cut_ms=tuple(_HOP_MS_PER_BYTE * (cut.crossing_bytes or 0) for cut in plan.cuts),
    )
    ends = (0, *partition(costs, num_groups), num_blocks)
    return tuple(BlockGroup(first_block=first, end_block=end, device=device) for first, end in pairwise(ends))


def _stated_groups(plan: SplitPlan, wanted: Sequence[WantedGroup]) -> tuple[BlockGroup, ...]:
    groups: list[BlockGroup] = []
    first = 0
    for index, group in enumerate(wanted):
        is_last = index == len(wanted) - 1
        if group.num_blocks is None and not is_last:
            raise LayoutRefusedError(f"group {index} of {plan.model!r} does not say how many blocks: only the last may")
        end = len(plan.blocks) if group.num_blocks is None else first + group.num_blocks
        groups.append(BlockGroup(first_block=first, end_block=max(end, first + 1), device=group.device))
        first = end
    return tuple(groups)
