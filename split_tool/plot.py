"""Draws a plan: times of the blocks beside the whole model, and what crosses each cut."""

from __future__ import annotations

from pathlib import Path

import matplotlib

from split_tool.errors import OptionError
from split_tool.plan import SplitPlan
from split_tool.report import overhead_pct


def plot_plan(plan: SplitPlan, file: Path) -> None:
    """Write the picture to ``file``; its ending decides the format.

    Raises:
        OptionError: If the ending names no picture format.
    """
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(
        2, 1, figsize=(max(7.0, 0.55 * len(plan.blocks) + 3), 6), height_ratios=(2, 1), sharex=True
    )
    try:
        times = [block.time_ms for block in plan.blocks]
        even_ms = plan.isolated_ms / len(times)
        bars = above.bar(range(len(times)), times, color="#4c78a8", width=0.8)
        above.bar_label(bars, fmt="%.1f", fontsize=8, padding=2)
        above.axhline(even_ms, color="#e45756", linewidth=1, linestyle="--", label=f"even share {even_ms:.1f} ms")
        above.axhline(plan.isolated_ms, color="#333333", linewidth=1, label=f"whole model {plan.isolated_ms:.1f} ms")
        above.set_yscale("linear")
        above.set_ylabel("block time, ms")
        above.set_title(
            f"{plan.model}: {len(times)} blocks, longest {max(times):.1f} ms, chain {overhead_pct(plan):+.1f} %"
        )
        above.legend(loc="upper right", fontsize=8, bbox_to_anchor=(1.0, 0.93))
        below.bar(
            [index + 0.5 for index in range(len(plan.cuts))],
            [(cut.crossing_bytes or 0) / 1e6 for cut in plan.cuts],
            color="#72b7b2",
            width=0.35,
        )
        below.set_ylabel("crossing, MB")
        below.set_xlabel("block (bars below lie at the cuts between blocks)")
        below.set_xticks(range(len(times)))
        figure.tight_layout()
        figure.savefig(file, dpi=130)
    except ValueError as error:
        raise OptionError(f"--out {file}: {error}") from error
    finally:
        pyplot.close(figure)
