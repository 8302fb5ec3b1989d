"""The one page: who is late, how unpredictable each model is, and what one second on the device looks like."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.load.plot import draw_late
from benchmarks.load.report import ALL_MODELS
from benchmarks.serve.figures import Figures, ratios_of
from benchmarks.serve.records import Round, Setting
from benchmarks.serve.timeline import draw_timelines

# Colours that people with any colour vision can tell apart (after Tol's "muted" scheme).
_COLOURS: Mapping[str, str] = {
    "slo": "#1b7837",
    "fifo": "#cc6677",
    "parallel": "#882255",
    "ray-serve": "#332288",
    "ray-serve-4": "#88ccee",
    "litserve": "#ddaa33",
    "dlir": "#999933",
    "oyst": "#44aa99",
    "bnst": "#999999",
}
_LOADS_FOR_CURVE = 2
_MIN_JITTER = 0.01  # less is not seen on the axis
_SPLITTING = ("slo", "dlir", "oyst")


def draw_page(
    path: Path, rounds: Sequence[Round], figures: Sequence[Figures], setting: Setting, *, load: float | None
) -> None:
    """Write the picture; the ending of ``path`` decides the format.

    Args:
        path: Where it goes.
        rounds: All of them.
        figures: Of all of them.
        setting: Theirs.
        load: The load of the panels that show one.
    """
    # A figure of its own draws without a window system; pyplot would have to be told.
    figure = Figure(figsize=(17, 13), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(5, 6), squeeze=False)[:, 0]
    at_load = [each for each in figures if each.load == load]
    ratios = {
        name: ratios_of([o for r in rounds if r.competitor == name and r.load == load for o in r.outcomes], setting)
        for name in sorted({each.competitor for each in at_load}, key=_rank)
    }
    late, jitter, spread = top.subplots(1, 3, width_ratios=(5, 4, 4))
    draw_late(late, ratios, _COLOURS)
    _draw_jitter(jitter, at_load, list(ratios))
    _draw_ratios(spread, ratios)
    sweep, timeline = bottom.subfigures(1, 2, width_ratios=(4, 9), squeeze=False)[0]
    _draw_sweep(sweep.subplots(2, 1), figures)
    draw_timelines(timeline, [each for each in rounds if each.load == load], setting)
    figure.suptitle(_title(figures, setting, load), fontsize=15)
    figure.savefig(path, dpi=110)


def _title(figures: Sequence[Figures], setting: Setting, load: float | None) -> str:
    overall = {each.competitor: each for each in figures if each.model == ALL_MODELS and each.load == load}
    others = [each for name, each in overall.items() if name not in _SPLITTING]
    where = f"{len(setting.isolated_s)} models on one device ({setting.device}), {setting.workload}"
    where += "" if load is None else f", {load:.0%} load"
    where += "" if setting.is_pinned else " (NOT PINNED: every server may use all cores)"
    if "slo" not in overall or not others:
        return where
    best = min(others, key=lambda each: each.late)
    late = f"{overall['slo'].late:.1%} with slo, {best.late:.1%} with the best that does not split ({best.competitor})"
    return f"Requests later than 4 times the model's own time: {late}\n{where}"


def _draw_jitter(axes: Axes, figures: Sequence[Figures], names: Sequence[str]) -> None:
    of_models = [each for each in figures if each.model != ALL_MODELS]
    isolated_ms = {each.model: each.isolated_ms or 0.0 for each in of_models}
    models = sorted(isolated_ms, key=lambda model: isolated_ms[model])
    for name in reversed(names):
        own = [each for each in of_models if each.competitor == name and each.jitter is not None]
        places = [models.index(each.model) for each in own]
        axes.scatter(
            [max(each.jitter or 0.0, _MIN_JITTER) for each in own],
            places,
            s=130 if name == "slo" else 55,
            color=_COLOURS[name],
            label=name,
            zorder=3,
        )
    axes.set_yticks(range(len(models)), [f"{model}\n{isolated_ms[model]:.0f} ms alone" for model in models])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.grid(alpha=0.25)
    axes.set(title="Jitter per model (left is better)", xlabel="standard deviation of response time / time alone")


def _draw_ratios(axes: Axes, ratios: Mapping[str, Sequence[float]]) -> None:
    """For each competitor the 5th to 95th percentile as a bar, the median and the 99th as marks."""
    for place, (name, values) in enumerate(ratios.items()):
        answered = [value for value in values if math.isfinite(value)]
        if not answered:
            continue
        low, middle, high, last = np.percentile(answered, (5, 50, 95, 99))
        axes.barh(place, high - low, left=low, height=0.6, color=_COLOURS[name])
        axes.plot([middle, middle], [place - 0.3, place + 0.3], color="white", linewidth=2.5)
        axes.plot([last], [place], marker="|", markersize=16, markeredgewidth=2.5, color=_COLOURS[name])
    axes.axvline(4, color="grey", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(ratios)), list(ratios))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.grid(alpha=0.25, axis="x")
    axes.set(
        title="Response times (left is better)",
        xlabel="multiple of the time alone (bar: 5 to 95 %, marks: 50 and 99 %)",
    )


def _draw_sweep(panels: Sequence[Axes], figures: Sequence[Figures]) -> None:
    """Late share and answers on time over load; bars where there is one load only."""
    overall = [each for each in figures if each.model == ALL_MODELS]
    names = sorted({each.competitor for each in overall}, key=_rank)
    loads = sorted({each.load for each in overall if each.load is not None})
    for axes, (title, label) in zip(
        panels,
        (("Later than 4x (lower is better)", "% of requests"), ("Answered within 4x (higher is better)", "per second")),
        strict=True,
    ):
        is_late = label.startswith("%")
        for place, name in enumerate(names):
            own = [each for each in overall if each.competitor == name]
            values = [100 * each.late if is_late else each.goodput_per_s for each in own]
            if len(loads) >= _LOADS_FOR_CURVE:
                width = 3 if name == "slo" else 1.5
                axes.plot(
                    [each.load or 0.0 for each in own], values, "o-", color=_COLOURS[name], linewidth=width, label=name
                )
            else:
                bars = axes.bar(place, values[0], color=_COLOURS[name])
                axes.bar_label(bars, fmt="%.1f", fontsize=9)
        axes.margins(y=0.15)
        axes.set(title=title, ylabel=label, ylim=(0, None))
        axes.grid(alpha=0.25, axis="y")
        if len(loads) >= _LOADS_FOR_CURVE:
            axes.set_xlabel("load: share of the device's time asked for")
        else:
            axes.set_xticks(range(len(names)), names, rotation=25, ha="right")


def _rank(name: str) -> int:
    return list(_COLOURS).index(name)
