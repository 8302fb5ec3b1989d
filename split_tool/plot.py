"""Draws a plan: the blocks in time beside the whole model, how even they are, what crosses, and what else one gets."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes

from split_tool.errors import OptionError
from split_tool.plan import SplitPlan
from split_tool.report import overhead_pct

BLOCK_COLOURS = ("#4c78a8", "#9ecae9")
WHOLE_COLOUR = "#54585d"
CROSSING_COLOUR = "#72b7b2"


def plot_plan(plan: SplitPlan, file: Path) -> None:
    """Write the picture to ``file``; its ending decides the format.

    Raises:
        OptionError: If the ending names no picture format.
    """
    matplotlib.use("Agg")
    from matplotlib import pyplot

    has_curve = len(plan.trade_off) > 1
    width = min(max(8.0, 0.6 * len(plan.blocks) + 3), 22.0)
    ratios = (1.1, 2.0, 1.2, 2.0) if has_curve else (1.1, 2.0, 1.2)
    figure, panels = pyplot.subplots(len(ratios), 1, figsize=(width, 10.0 if has_curve else 7.5), height_ratios=ratios)
    try:
        longest_ms = max(block.time_ms for block in plan.blocks)
        figure.suptitle(
            f"{plan.model}: {len(plan.blocks)} blocks, longest {longest_ms:.1f} ms, "
            f"chain {overhead_pct(plan):+.1f} % over the whole model"
        )
        _draw_time_line(panels[0], plan)
        _draw_blocks(panels[1], plan)
        _draw_crossings(panels[2], plan)
        if has_curve:
            _draw_trade_off(panels[3], plan)
        figure.tight_layout()
        figure.savefig(file, dpi=130)
    except ValueError as error:
        raise OptionError(f"--out {file}: {error}") from error
    finally:
        pyplot.close(figure)


def _draw_time_line(axes: Axes, plan: SplitPlan) -> None:
    times = [block.time_ms for block in plan.blocks]
    axes.barh([1], [plan.isolated_ms], color=WHOLE_COLOUR, height=0.6)
    starts = [0.0, *accumulate(times[:-1])]
    colours = [BLOCK_COLOURS[index % 2] for index in range(len(times))]
    axes.barh([0] * len(times), times, left=starts, color=colours, height=0.6)
    axes.axvline(plan.isolated_ms, color=WHOLE_COLOUR, linewidth=1, linestyle="--")
    axes.set_yticks([1, 0], [f"whole, {plan.isolated_ms:.1f} ms", f"blocks, {plan.chain_ms:.1f} ms"])
    axes.set_xlabel("time, ms")


def _draw_blocks(axes: Axes, plan: SplitPlan) -> None:
    times = [block.time_ms for block in plan.blocks]
    even_ms = plan.isolated_ms / len(times)
    drawn = axes.bar(range(len(times)), times, color=BLOCK_COLOURS[0], width=0.8)
    axes.bar_label(drawn, fmt="%.1f" if max(times) < 100 else "%.0f", fontsize=8 if len(times) <= 24 else 6, padding=2)
    axes.axhline(even_ms, color="#e45756", linewidth=1, linestyle="--", label=f"whole / blocks = {even_ms:.1f} ms")
    axes.set_ylim(0, max([*times, even_ms]) * 1.25)
    axes.set_xlim(-0.6, len(times) - 0.4)
    axes.set_xticks(range(len(times)))
    axes.set_ylabel("block time, ms")
    axes.set_xlabel("block")
    axes.legend(loc="upper right", fontsize=8)


def _draw_crossings(axes: Axes, plan: SplitPlan) -> None:
    sizes = [(cut.crossing_bytes or 0) / 1e6 for cut in plan.cuts]
    drawn = axes.bar([index + 0.5 for index in range(len(sizes))], sizes, color=CROSSING_COLOUR, width=0.4)
    axes.bar_label(drawn, labels=[f"{size:.2g}" for size in sizes], fontsize=8 if len(sizes) <= 24 else 6, padding=2)
    axes.set_xlim(-0.6, len(plan.blocks) - 0.4)
    axes.set_ylim(0, max([*sizes, 1e-6]) * 1.25)
    axes.set_xticks(range(len(plan.blocks)))
    axes.set_ylabel("crossing, MB")
    axes.set_xlabel("between blocks")


def _draw_trade_off(axes: Axes, plan: SplitPlan) -> None:
    """Overhead over longest block, a point per number of blocks; the plan's own is marked."""
    points = [point for point in plan.trade_off if point.longest_ms > 0]
    axes.plot(
        [point.longest_ms for point in points],
        [100 * point.overhead for point in points],
        color=WHOLE_COLOUR,
        marker="o",
        markersize=4,
        linewidth=1,
        label="estimated from the same measurements",
    )
    last_ms = float("inf")
    for point in points:
        if point.longest_ms < 0.93 * last_ms:
            at = (point.longest_ms, 100 * point.overhead)
            axes.annotate(str(point.blocks), at, xytext=(3, 4), textcoords="offset points", fontsize=8)
            last_ms = point.longest_ms
    chosen = next((point for point in points if point.blocks == len(plan.blocks)), None)
    if chosen is not None:
        axes.plot(
            [chosen.longest_ms],
            [100 * chosen.overhead],
            color="#e45756",
            marker="D",
            linestyle="",
            label=f"this plan: {chosen.blocks} blocks (measured)",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.set_xlabel("longest block, ms (numbers: blocks)")
    axes.set_ylabel("overhead, %")
    axes.legend(loc="upper right", fontsize=8)
