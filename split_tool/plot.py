"""Draws a plan: the blocks in time beside the whole model, how even they are, what crosses, and what else one gets."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes

from split_tool.errors import OptionError
from split_tool.plan import SplitPlan, TradeOff
from split_tool.report import longest_ms, overhead_pct

BLOCK_COLOURS = ("#4c78a8", "#9ecae9")
LONGEST_COLOUR = "#e45756"
WHOLE_COLOUR = "#54585d"
CROSSING_COLOUR = "#72b7b2"

SMALL, SMALLER = 8, 6
"""Sizes of figures on bars, and of those where there are over ``MANY`` bars."""

MANY = 24


def plot_plan(plan: SplitPlan, file: Path) -> None:
    """Write the picture to ``file``; its ending decides the format.

    Raises:
        OptionError: If the ending names no picture format.
    """
    matplotlib.use("Agg")
    from matplotlib import pyplot

    has_curve = len(plan.trade_off) > 1
    width = min(max(8.5, 0.6 * len(plan.blocks) + 3), 22.0)
    ratios = (1.1, 2.0, 1.2, 2.0) if has_curve else (1.1, 2.0, 1.2)
    figure, panels = pyplot.subplots(len(ratios), 1, figsize=(width, 12.0 if has_curve else 9.0), height_ratios=ratios)
    try:
        figure.suptitle(
            f"{plan.model} cut into {len(plan.blocks)} blocks\nthe longest takes {longest_ms(plan):.1f} ms instead of "
            f"{plan.isolated_ms:.1f} ms, all together {overhead_pct(plan):+.1f} %",
            fontweight="bold",
        )
        _draw_time_line(panels[0], plan)
        _draw_blocks(panels[1], plan)
        _draw_crossings(panels[2], plan)
        if has_curve:
            _draw_trade_off(panels[3], plan)
        for axes in panels:
            axes.spines[["top", "right"]].set_visible(False)
        figure.tight_layout(h_pad=1.5)
        figure.savefig(file, dpi=130)
    except ValueError as error:
        raise OptionError(f"--out {file}: {error}") from error
    finally:
        pyplot.close(figure)


def _draw_time_line(axes: Axes, plan: SplitPlan) -> None:
    times = [block.time_ms for block in plan.blocks]
    _title(axes, "In a row, beside the model in one piece")
    axes.barh([1], [plan.isolated_ms], color=WHOLE_COLOUR, height=0.6)
    starts = [0.0, *accumulate(times[:-1])]
    colours = [BLOCK_COLOURS[index % 2] for index in range(len(times))]
    colours[times.index(max(times))] = LONGEST_COLOUR
    axes.barh([0] * len(times), times, left=starts, color=colours, height=0.6)
    for index, (start, time_ms) in enumerate(zip(starts, times, strict=True)):
        if time_ms > 0.02 * plan.isolated_ms:
            axes.text(start + time_ms / 2, 0, str(index), ha="center", va="center", fontsize=SMALL)
    axes.axvline(plan.isolated_ms, color=WHOLE_COLOUR, linewidth=1, linestyle="--")
    axes.set_yticks([1, 0], [f"whole, {plan.isolated_ms:.1f} ms", f"blocks, {plan.chain_ms:.1f} ms"])
    axes.set_xlabel("time, ms (numbers: blocks)")


def _draw_blocks(axes: Axes, plan: SplitPlan) -> None:
    times = [block.time_ms for block in plan.blocks]
    even_ms = plan.isolated_ms / len(times)
    _title(axes, "Time of each block: who comes while it runs waits at most so long")
    colours = [BLOCK_COLOURS[0]] * len(times)
    colours[times.index(max(times))] = LONGEST_COLOUR
    drawn = axes.bar(range(len(times)), times, color=colours, width=0.8)
    labels = [f"{time_ms:.1f}" if max(times) < 100 else f"{time_ms:.0f}" for time_ms in times]
    axes.bar_label(drawn, labels=labels, fontsize=_font_size(len(times)), padding=2)
    axes.axhline(even_ms, color="black", linewidth=1, linestyle="--", label=f"all equally long: {even_ms:.1f} ms")
    axes.set_ylim(0, max([*times, even_ms]) * 1.3)
    axes.set_xlim(-0.6, len(times) - 0.4)
    axes.set_xticks(range(len(times)))
    axes.set_ylabel("ms")
    axes.set_xlabel("block")
    axes.legend(loc="upper right", fontsize=SMALL)


def _draw_crossings(axes: Axes, plan: SplitPlan) -> None:
    sizes = [(cut.crossing_bytes or 0) / 1e6 for cut in plan.cuts]
    _title(axes, "Data that each block hands to later ones")
    drawn = axes.bar([index + 0.5 for index in range(len(sizes))], sizes, color=CROSSING_COLOUR, width=0.4)
    axes.bar_label(drawn, labels=[f"{size:.2g}" for size in sizes], fontsize=_font_size(len(sizes)), padding=2)
    axes.set_xlim(-0.6, len(plan.blocks) - 0.4)
    axes.set_ylim(0, max([*sizes, 1e-6]) * 1.3)
    axes.set_xticks(range(len(plan.blocks)))
    axes.set_ylabel("MB")
    axes.set_xlabel("block (bars lie at the cuts between two)")


def _draw_trade_off(axes: Axes, plan: SplitPlan) -> None:
    """Overhead over longest block, a point per number of blocks; the plan's own is marked."""
    points = _worth_drawing(plan)
    _title(axes, "Other numbers of blocks: shorter ones to the left, dearer ones further up")
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
        if point.longest_ms < 0.95 * last_ms:  # labels of crowded points would cover each other
            place = (point.longest_ms, 100 * point.overhead)
            axes.annotate(str(point.blocks), place, xytext=(0, 6), textcoords="offset points", fontsize=SMALL)
            last_ms = point.longest_ms
    chosen = next((point for point in points if point.blocks == len(plan.blocks)), None)
    if chosen is not None:
        axes.plot(
            [chosen.longest_ms],
            [100 * chosen.overhead],
            color=LONGEST_COLOUR,
            marker="D",
            linestyle="",
            label=f"this plan: {chosen.blocks} blocks (measured)",
        )
    axes.margins(y=0.15)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.set_xlabel("longest block, ms (numbers at the points: blocks)")
    axes.set_ylabel("overhead, %")
    axes.legend(loc="upper right", fontsize=SMALL)


def _worth_drawing(plan: SplitPlan) -> list[TradeOff]:
    """The plan's own number of blocks, and of the others those whose longest block is shorter than with fewer."""
    points: list[TradeOff] = []
    last_ms = float("inf")
    for point in plan.trade_off:
        if point.longest_ms > 0 and (point.longest_ms < 0.99 * last_ms or point.blocks == len(plan.blocks)):
            points.append(point)
            last_ms = min(last_ms, point.longest_ms)
    return points


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize="medium", fontweight="bold")


def _font_size(num_bars: int) -> int:
    return SMALL if num_bars <= MANY else SMALLER
