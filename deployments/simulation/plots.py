"""Pictures of simulations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from deployments.simulation.device import Slice
from deployments.simulation.measures import response_ratios
from deployments.simulation.scaling import Scaling
from deployments.simulation.simulator import Run

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#000000", "#994f00")


def plot_violations(runs: Mapping[str, Sequence[Run]], path: Path, *, title: str, highest_alpha: float = 10.0) -> None:
    """Share of late requests over alpha, one curve per contender.

    Args:
        runs: By label.
        path: Picture to write.
        title: Above it.
        highest_alpha: Right end of the axis.
    """
    figure, axes = _figure(8.0, 5.0)
    alphas = np.linspace(1.0, highest_alpha, 181)
    for number, (label, each) in enumerate(runs.items()):
        ratios = np.sort(np.concatenate([response_ratios(run) for run in each]))
        late_pct = 100.0 * (1.0 - np.searchsorted(ratios, alphas + 1e-9, side="right") / len(ratios))
        axes.plot(alphas, late_pct, label=label, color=_COLOURS[number % len(_COLOURS)], linewidth=1.8)
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_ylim(0.0, 100.0)
    axes.set_yticks([0, 0.5, 1, 2, 5, 10, 20, 50, 100], ["0", "0.5", "1", "2", "5", "10", "20", "50", "100"])
    axes.set_xlim(1.0, highest_alpha)
    axes.set_xlabel("alpha: response time allowed, in multiples of the isolated time")
    axes.set_ylabel("requests later than that, per cent")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    _write(figure, path)


def plot_slices(runs: Mapping[str, Run], path: Path, *, title: str, start_s: float, end_s: float) -> None:
    """Who had the device when: one lane per model in one panel per contender; a tick where a request arrived.

    Args:
        runs: By label, with their slices.
        path: Picture to write.
        title: Above it.
        start_s: Left end of the axis, virtual seconds.
        end_s: Right end.
    """
    models = sorted({request.model for run in runs.values() for request in run.requests})
    figure = Figure(figsize=(11.0, 0.6 + len(runs) * (0.5 + 0.35 * len(models))), layout="constrained")
    panels = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (label, run) in zip(panels, runs.items(), strict=True):
        for lane, model in enumerate(models):
            shown = [
                each for each in run.slices if each.model == model and start_s < each.end_s and each.start_s < end_s
            ]
            _draw_lane(panel, lane, shown, _COLOURS[lane % len(_COLOURS)])
            arrivals_ms = [
                1e3 * request.arrival_s
                for request in run.requests
                if request.model == model and start_s <= request.arrival_s <= end_s
            ]
            panel.plot(arrivals_ms, [lane - 0.45] * len(arrivals_ms), "k|", markersize=5)
        panel.set_yticks(range(len(models)), models)
        panel.set_ylim(len(models) - 0.4, -0.7)
        panel.set_title(label, fontsize="medium", loc="left")
        panel.grid(axis="x", alpha=0.3)
    panels[-1].set_xlim(1e3 * start_s, 1e3 * end_s)
    panels[-1].set_xlabel("milliseconds; ticks above a lane: arrivals")
    figure.suptitle(title)
    _write(figure, path)


def plot_frontier(points: Mapping[str, Sequence[tuple[str, float, float]]], path: Path, *, title: str) -> None:
    """Violations against jitter, one line per family of contenders; on the right a closer look at the long lines.

    Args:
        points: By family: (label, violations in per cent, jitter) of each member.
        path: Picture to write.
        title: Above it.
    """
    figure = Figure(figsize=(13.0, 5.0), layout="constrained")
    overview, closer = figure.subplots(1, 2, width_ratios=(2, 3))
    is_above = True
    for number, (family, members) in enumerate(points.items()):
        style = {"color": _COLOURS[number % len(_COLOURS)], "label": family}
        lates_pct, jitters = [each[1] for each in members], [each[2] for each in members]
        overview.plot(lates_pct, jitters, "o-", **style)
        if max(lates_pct) < 1.1 * min(lates_pct):
            text = ", ".join(label for label, *_ in members) if len(members) > 1 else ""
            overview.annotate(text, members[0][1:], textcoords="offset points", xytext=(8, -3), fontsize="small")
            continue
        closer.plot(lates_pct, jitters, "o-", **style)
        offset = {"xytext": (5, 5)} if is_above else {"xytext": (-1, -5), "ha": "right", "va": "top"}
        for label, *place in members:
            closer.annotate(
                label, place, textcoords="offset points", fontsize="x-small", color=style["color"], **offset
            )
        is_above = not is_above
    for panel in (overview, closer):
        panel.set_xlabel("requests late, per cent")
        panel.set_ylabel("jitter: standard deviation of the response ratio")
        panel.grid(alpha=0.3)
    overview.set_xscale("log")
    overview.set_yscale("log")
    overview.set_xticks([2, 3, 4, 5, 7, 10, 20, 50], ["2", "3", "4", "5", "7", "10", "20", "50"], minor=False)
    overview.set_yticks([1.5, 2, 2.5, 3, 5, 10], ["1.5", "2", "2.5", "3", "5", "10"], minor=False)
    overview.minorticks_off()
    overview.legend(fontsize="small")
    closer.margins(0.1)
    figure.suptitle(title)
    _write(figure, path)


def plot_scaling(rows: Sequence[Scaling], path: Path) -> None:
    """Goodput per device, and late requests, over the number of devices: a column per load, a curve per router.

    Bars are 95 % confidence intervals over the seeds.

    Args:
        rows: Of one policy.
        path: Picture to write.
    """
    loads = sorted({row.load for row in rows})
    counts = sorted({row.num_devices for row in rows})
    figure = Figure(figsize=(4.6 * len(loads) + 0.6, 6.4), layout="constrained")
    panels = figure.subplots(2, len(loads), squeeze=False, sharex=True, sharey="row")
    for column, load in enumerate(loads):
        for number, router in enumerate(dict.fromkeys(row.router for row in rows)):
            chosen = sorted((row for row in rows if row.load == load and row.router == router), key=_num_devices)
            devices = [row.num_devices for row in chosen]
            style = {"label": router, "color": _COLOURS[number], "marker": "o", "markersize": 4, "capsize": 2}
            lowest = min(rows[0].late_pct)
            goodputs = [row.goodput_per_s / row.num_devices for row in chosen]
            halves = [row.goodput_ci95 / row.num_devices for row in chosen]
            panels[0][column].errorbar(devices, goodputs, halves, **style)
            late_halves = [row.late_ci95[lowest] for row in chosen]
            panels[1][column].errorbar(devices, [row.late_pct[lowest] for row in chosen], late_halves, **style)
        panels[0][column].set_title(f"load {load:g} on each device")
        panels[1][column].set_xlabel("devices")
        panels[1][column].set_xscale("log", base=2)
        panels[1][column].set_xticks(counts, [str(count) for count in counts])
    panels[0][0].set_ylabel("on time per second and device")
    panels[1][0].set_ylabel(f"late at {min(rows[0].late_pct):g} x isolated time, %")
    for panel in panels.flat:
        panel.grid(alpha=0.3)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    figure.suptitle(f"policy {rows[0].policy}")
    _write(figure, path)


def _num_devices(row: Scaling) -> int:
    return row.num_devices


def _draw_lane(panel: Any, lane: int, slices: Sequence[Slice], colour: str) -> None:
    spans_ms = [(1e3 * each.start_s, 1e3 * (each.end_s - each.start_s)) for each in slices]
    panel.broken_barh(spans_ms, (lane - 0.35, 0.7), facecolors=colour, edgecolors="white", linewidth=0.4)


def _figure(width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _write(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure).print_figure(path, dpi=110)
