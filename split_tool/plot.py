"""Draws a plan: the blocks as slices of time beside the whole model, how even they are, and what crosses each cut."""

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

    figure, (line, bars, crossing) = pyplot.subplots(
        3, 1, figsize=(max(8.0, 0.6 * len(plan.blocks) + 3), 7.5), height_ratios=(1.1, 2, 1.2)
    )
    try:
        longest_ms = max(block.time_ms for block in plan.blocks)
        figure.suptitle(
            f"{plan.model}: {len(plan.blocks)} blocks, longest {longest_ms:.1f} ms, "
            f"chain {overhead_pct(plan):+.1f} % over the whole model"
        )
        _draw_time_line(line, plan)
        _draw_blocks(bars, plan)
        _draw_crossings(crossing, plan)
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
    axes.bar_label(drawn, fmt="%.1f", fontsize=8, padding=2)
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
    axes.bar_label(drawn, labels=[f"{size:.2g}" for size in sizes], fontsize=8, padding=2)
    axes.set_xlim(-0.6, len(plan.blocks) - 0.4)
    axes.set_ylim(0, max([*sizes, 1e-6]) * 1.25)
    axes.set_xticks(range(len(plan.blocks)))
    axes.set_ylabel("crossing, MB")
    axes.set_xlabel("between blocks")
