"""The chained layout, pure: which blocks a deployment has, what crosses between two, what each allocator sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from deployments.runtime.errors import LayoutRefusedError
from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.request import Request
from split_tool.plan import SplitPlan, TensorSpec


class BlockGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks of one model that live in one deployment.

    Attributes:
        first_block: Number of its first block.
        end_block: Number of the block behind its last one.
        device: Where they run, and what the models of that device share.
    """

    first_block: int
    end_block: int
    device: DeviceSettings


def group_plan(plan: SplitPlan, group: BlockGroup) -> SplitPlan:
    """The plan of a model that consists of the group's blocks alone.

    It takes what crosses the cut before them and gives what crosses the cut behind them: also values that only pass
    through, and outputs of the model that are there already.
    """
    first, end = group.first_block, group.end_block
    return msgspec.structs.replace(
        plan,
        inputs=plan.inputs if first == 0 else _crossing(plan, first),
        outputs=plan.outputs if end == len(plan.blocks) else _crossing(plan, end),
        blocks=plan.blocks[first:end],
        cuts=plan.cuts[first : end - 1],
    )


def check_groups(plan: SplitPlan, groups: Sequence[BlockGroup]) -> None:
    """Return if the groups are the blocks of the plan and everything that crosses between them can be sent.

    Raises:
        LayoutRefusedError: It says what is wrong, or which value cannot be sent.
    """
    ends = [group.end_block for group in groups]
    if [0, *ends] != [*(group.first_block for group in groups), len(plan.blocks)]:
        raise LayoutRefusedError(
            f"the groups of {plan.model!r} end before blocks {', '.join(map(str, ends))}, its plan has "
            f"{len(plan.blocks)} blocks: state groups that have all of them"
        )
    if any(group.device.kind == "opencl" for group in groups):
        raise LayoutRefusedError(
            f"model {plan.model!r} cannot be chained: what is compiled for OpenCL is loaded whole; serve it with "
            "layout: fused"
        )
    for end in ends[:-1]:
        for spec in _crossing(plan, end):
            if spec.kind != "tensor":
                raise LayoutRefusedError(
                    f"model {plan.model!r} cannot be chained: only tensors can be sent, and {spec.name!r}, which is "
                    f"there between blocks {end - 1} and {end}, is of kind {spec.kind}; serve it with layout: fused, "
                    "or in groups that do not end there"
                )


def stay(request: Request, groups: Sequence[BlockGroup], index: int) -> Request:
    """The request as the allocator of a group's device sees it.

    All work that is left for this device counts as remaining, this group's and later ones'; what later groups do on
    other devices counts against the deadline.

    Args:
        request: The whole request, with the predicted time of every block.
        groups: All groups of its model.
        index: Which of them.
    """
    here = groups[index]
    elsewhere = [group for group in groups if group.device.device != here.device.device]
    times_s = list(request.block_times_s)
    for group in elsewhere:
        times_s[group.first_block : group.end_block] = [0.0] * (group.end_block - group.first_block)
    return replace(
        request,
        block_times_s=tuple(times_s),
        first_block=here.first_block,
        end_block=here.end_block,
        elsewhere_s=sum(
            sum(request.block_times_s[group.first_block : group.end_block])
            for group in elsewhere
            if group.first_block >= here.end_block
        ),
    )


def _crossing(plan: SplitPlan, end: int) -> tuple[TensorSpec, ...]:
    """What is there before block ``end`` and wanted by a later block or by the caller."""
    specs = {spec.name: spec for spec in _specs(plan)}
    wanted = {name for block in plan.blocks[end:] for name in block.inputs} | {spec.name for spec in plan.outputs}
    made = [spec.name for spec in plan.inputs] + [name for block in plan.blocks[:end] for name in block.outputs]
    return tuple(specs[name] for name in dict.fromkeys(made) if name in wanted)


def _specs(plan: SplitPlan) -> Iterator[TensorSpec]:
    for cut in plan.cuts:
        yield from cut.tensors
    yield from plan.inputs
    yield from plan.outputs
