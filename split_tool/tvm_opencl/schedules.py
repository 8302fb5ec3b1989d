"""How kernels are laid out over work items: TVM's own rules where they are right, others where they are not.

A rule has ``apply(function, target, tunable)`` and gives a schedule, or None where it does not fit. The first that fits
counts.
"""

from __future__ import annotations

import math
from typing import Any

from tvm import s_tir, tirx
from tvm.s_tir import dlight
from tvm.s_tir.dlight import analysis

LARGE_REDUCTION = 128
"""From so many summands an output on, work items share the sum ..."""

FEW_OUTPUTS = 8192
"""... if there are at most so many outputs; otherwise each work item makes one output alone."""


LONG_SUM = 1024
"""From so many summands on, a work item that makes an output alone adds up parts of the sum ..."""

PART_OF_SUM = 16
"""... over so many input channels each."""


def rules(*, texture: bool) -> list[Any]:
    """The rules for a target, in order.

    ``dlight.adreno.Pool2D`` gives wrong maxima and ``dlight.gpu.Reduction`` wrong grouped convolutions (TVM 0.27): both
    are left out.
    """
    on_textures = [
        TexturePaddedConv2d(),
        dlight.adreno.Conv2d(),
        dlight.adreno.LayoutTransform(),
        TextureReduction(),
        dlight.adreno.Fallback(),
    ]
    return [*(on_textures if texture else []), LargeReduction(), LongSum(), dlight.gpu.Fallback()]


class TexturePaddedConv2d:
    """A convolution that keeps its padded input in a texture of its own, inside the fused function."""

    def apply(self, function: Any, target: Any, tunable: bool) -> Any:
        """See the module."""
        if not isinstance(function, tirx.PrimFunc):
            return None
        schedule = s_tir.Schedule(function)
        for block in schedule.get_child_blocks(analysis.get_root_block(schedule)):
            padded = schedule.get(block).writes[0].source
            if schedule.get(block).name_hint.endswith("data_pad") and len(padded.shape) == 5:
                height, width = int(padded.shape[2]), int(padded.shape[3])
                fits_a_row = height * width <= int(target.attrs["texture_spatial_limit"])
                schedule.work_on("main")
                schedule.set_scope(block, 0, "global.texture-nhwc" if fits_a_row else "global.texture")
                return dlight.adreno.Conv2d().apply(schedule, target, tunable)
        return None


class TextureReduction:
    """One sum or maximum into a texture (pooling): a work item makes the four channels of a texel."""

    def apply(self, function: Any, target: Any, _tunable: bool) -> Any:
        """See the module."""
        if not isinstance(function, tirx.PrimFunc):
            return None
        schedule = s_tir.Schedule(function)
        blocks = schedule.get_child_blocks(analysis.get_root_block(schedule))
        infos = [analysis.get_sblock_info(schedule, block) for block in blocks]
        places = [place for place, info in enumerate(infos) if info.is_reduction()]
        if len(places) != 1 or not _is_texel_wise(schedule, blocks, infos[places[0]]):
            return None
        place = places[0]
        for block in blocks[:place]:
            schedule.compute_inline(block)
        reduction, after = blocks[place], blocks[place + 1 :]
        if after:
            schedule.set_scope(reduction, 0, "local")
            for block in after[:-1]:
                schedule.compute_inline(block)
        last = after[-1] if after else schedule.cache_write(reduction, 0, "local")
        *outer, channels = schedule.get_loops(last)
        groups, items = schedule.split(schedule.fuse(*outer), [None, int(target.attrs["max_num_threads"])])
        schedule.bind(groups, "blockIdx.x")
        schedule.bind(items, "threadIdx.x")
        schedule.vectorize(channels)
        schedule.compute_at(reduction, items, preserve_unit_loops=True)
        num_axes = sum(iterator.kind == "R" for iterator in infos[place].iters)
        *_, channels = schedule.get_loops(reduction)[:-num_axes]
        axes = schedule.get_loops(reduction)[-num_axes:]
        schedule.reorder(*axes, channels)
        schedule.vectorize(channels)
        schedule.decompose_reduction(reduction, axes[0])
        return schedule


class LargeReduction:
    """Few outputs of many summands each (fully connected layers, global pooling): a work group makes one together."""

    def apply(self, function: Any, target: Any, tunable: bool) -> Any:
        """See the module."""
        if not isinstance(function, tirx.PrimFunc):
            return None
        schedule = s_tir.Schedule(function)
        for block in schedule.get_child_blocks(analysis.get_root_block(schedule)):
            info = analysis.get_sblock_info(schedule, block)
            if not info.is_reduction():
                continue
            sizes: dict[str, int] = {}
            for iterator in info.iters:
                sizes[iterator.kind] = sizes.get(iterator.kind, 1) * int(iterator.dom)
            if sizes.get("R", 1) < LARGE_REDUCTION or sizes.get("S", 1) > FEW_OUTPUTS:
                return None
        return dlight.gpu.GeneralReduction().apply(function, target, tunable)


class LongSum:
    """Many outputs of many summands each (convolutions of many channels): a work item sums parts, then these.

    In one sum the error of single precision grows with the number of summands: the 4608 of vgg19's last convolutions
    made it four times that of ONNX Runtime, which a softmax of large logits showed.
    """

    def apply(self, function: Any, target: Any, _tunable: bool) -> Any:
        """See the module."""
        if not isinstance(function, tirx.PrimFunc):
            return None
        schedule = s_tir.Schedule(function)
        infos = analysis.normalize_prim_func(schedule)
        if infos is None:
            return None
        infos = dlight.base.try_inline(schedule, infos)
        reductions = [info for info in infos if info.is_reduction()]
        if len(reductions) != 1 or any(set(info.dom_kind()) - {"S", "R"} for info in infos):
            return None
        (reduction,) = reductions
        if len(schedule.get(reduction.block_rv).writes) != 1:  # the place of a maximum beside it
            return None
        summed = [int(iterator.dom) for iterator in reduction.iters if iterator.kind == "R"]
        if math.prod(summed) < LONG_SUM or summed[0] % PART_OF_SUM or summed[0] == PART_OF_SUM:
            return None
        for info in infos:
            loops = schedule.get_loops(info.block_rv)
            outputs = [loop for loop, kind in zip(loops, info.dom_kind(), strict=True) if kind == "S"]
            axes = [loop for loop, kind in zip(loops, info.dom_kind(), strict=True) if kind == "R"]
            schedule.reorder(*outputs, *axes)
            part = None
            if axes:
                over_parts, _ = schedule.split(axes[0], [None, PART_OF_SUM])
                part = schedule.rfactor(over_parts, 0)
                schedule.set_scope(part, 0, "local")
                *outputs, over_parts = schedule.get_loops(info.block_rv)
                # before loops are fused: TVM does not see through the indices that result
                schedule.compute_at(part, over_parts, preserve_unit_loops=True)
            groups, items = schedule.split(schedule.fuse(*outputs), [None, int(target.attrs["max_num_threads"])])
            schedule.bind(groups, "blockIdx.x")
            schedule.bind(items, "threadIdx.x")
            if part is not None:
                schedule.decompose_reduction(part, schedule.get_loops(part)[-len(axes)])
                schedule.decompose_reduction(info.block_rv, over_parts)
        return schedule


def _is_texel_wise(schedule: Any, blocks: list[Any], reduction: Any) -> bool:
    """True if result and reduction have the same five axes, the last being the channels of a texel."""
    result = schedule.get(blocks[-1]).writes[0].source
    kinds = [iterator.kind for iterator in reduction.iters]
    num_axes = kinds.count("S")
    sizes = [int(iterator.dom) for iterator in reduction.iters[:num_axes]]
    return (
        "texture" in result.scope()
        and kinds[:num_axes] == ["S"] * num_axes
        and sizes == [int(size) for size in result.shape]
        and math.prod(sizes) % 4 == 0
        and sizes[-1] == 4
    )
