"""One picture of several modes: who is late, and how unpredictable each model is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.load.report import ALL_MODELS, Report, violation_share

_ALPHAS = np.linspace(1, 10, 181)
_COLOURS = ("#1b7837", "#c2731a", "#7b5aa6", "#2166ac", "#b2182b", "#666666")
# Up to here the bars of all modes can be told apart on a linear scale.
_LINEAR_JITTER = 30


def plot_modes(ratios: Mapping[str, Sequence[float]], reports: Sequence[Report], path: Path, *, subtitle: str) -> None:
    """Write the picture to ``path``; the ending decides the format.

    Args:
        ratios: Mode -> response ratio of every request, infinite for failed ones.
        reports: Of all modes.
        path: Where it goes.
        subtitle: What was measured, for the line under the title.
    """
    # A figure of its own draws without a window system; pyplot would have to be told.
    figure = Figure(figsize=(12, 5), layout="constrained")
    late, jitter = figure.subplots(1, 2, width_ratios=(3, 2))
    figure.suptitle(f"Several models on one device: which requests are late?\n{subtitle}", fontsize=12)
    colours = dict(zip(ratios, _COLOURS * (len(ratios) // len(_COLOURS) + 1), strict=False))
    draw_late(late, ratios, colours)
    _draw_jitter(jitter, reports, colours)
    figure.savefig(path, dpi=130)


def draw_late(axes: Axes, ratios: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> None:
    """Draw the share of late requests over the multiple of the time alone that is allowed; the line of ``slo`` is bold.

    Args:
        axes: Where.
        ratios: Name -> response ratio of every request, infinite for failed ones.
        colours: Name -> colour of its line.
    """
    for name, values in ratios.items():
        shares = [100 * violation_share(values, float(alpha)) for alpha in _ALPHAS]
        at_four = 100 * violation_share(values, 4)
        width = 3.5 if name == "slo" else 1.8
        axes.plot(_ALPHAS, shares, color=colours[name], linewidth=width, label=f"{name}: {at_four:.1f} %")
        axes.plot([4], [at_four], marker="o", color=colours[name])
    axes.axvline(4, color="grey", linewidth=0.8, linestyle=":")
    axes.set(
        title="Late requests (lower is better)",
        xlabel="allowed: response time as a multiple of the model's time alone",
        ylabel="% of requests later than that",
        xlim=(1, 10),
        ylim=(0, 102),
    )
    axes.grid(alpha=0.25)
    axes.legend(title="later than 4x", frameon=False)


def _draw_jitter(axes: Axes, reports: Sequence[Report], colours: Mapping[str, str]) -> None:
    of_models = [report for report in reports if report.model != ALL_MODELS]
    isolated_ms = {report.model: report.isolated_ms or 0.0 for report in of_models}
    models = sorted(isolated_ms, key=lambda model: isolated_ms[model])
    height = 0.8 / max(1, len(colours))
    for index, mode in enumerate(colours):
        values = {report.model: report.jitter or 0.0 for report in of_models if report.mode == mode}
        positions = np.arange(len(models)) + index * height
        bars = axes.barh(positions, [values.get(model, 0.0) for model in models], height, color=colours[mode])
        axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
    axes.set_yticks(
        np.arange(len(models)) + 0.4 - height / 2, [f"{model}\n{isolated_ms[model]:.0f} ms alone" for model in models]
    )
    axes.invert_yaxis()
    if max((report.jitter or 0.0 for report in of_models), default=0.0) > _LINEAR_JITTER:
        axes.set_xscale("symlog", linthresh=1)
    axes.margins(x=0.12)
    axes.set(title="Jitter (lower is better)", xlabel="standard deviation of response time / time alone")
    axes.spines[["top", "right"]].set_visible(False)
