"""The figures as tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich import box
from rich.table import Table

from benchmarks.load.report import ALL_MODELS, number
from benchmarks.serve.figures import ALPHAS, Figures
from benchmarks.serve.pairs import Difference
from benchmarks.serve.prediction import Prediction


def overall_tables(figures: Sequence[Figures]) -> list[Table]:
    """One line per competitor and load, over all models: response ratios, violations, and the machine."""
    overall = [each for each in figures if each.model == ALL_MODELS]
    ratios = _table("All models: response time as a multiple of the time alone")
    late = _table("All models: requests later than this multiple, refused and failed ones included")
    machine = _table(
        "All models: throughput and the machine",
        caption="device, others: their cores. turns: per request. alloc.: per turn. gen.: the load generator, p99.\n"
        "* at least 99 % of the requests within their alpha",
    )
    for table, headings in (
        (ratios, ("load", "sent", "ref.", "fail", "mean", "p50", "p95", "p99", "max", "jitter")),
        (late, ("load", *(f"{alpha:g}x" for alpha in ALPHAS))),
        (
            machine,
            (
                "load",
                "done\n1/s",
                "on time\n1/s",
                "device\nbusy",
                "others\nbusy",
                "turns",
                "alloc.\nus",
                "hand-\nover us",
                "gen.\nlate ms",
            ),
        ),
    ):
        table.add_column("competitor", no_wrap=True)
        for heading in headings:
            table.add_column(heading, justify="right")
    for each in overall:
        load = _load(each.load)
        counts = map(str, (each.num_requests, each.num_refused, each.num_failed))
        figures_of = (each.ratio_mean, each.ratio_p50, each.ratio_p95, each.ratio_p99, each.ratio_max, each.jitter)
        ratios.add_row(each.competitor, load, *counts, *map(number, figures_of))
        late.add_row(each.competitor, load, *map(_percent, each.violations.values()))
        machine.add_row(
            each.competitor,
            load,
            number(each.throughput_per_s),
            number(each.goodput_per_s) + (" *" if each.is_99_on_time else ""),
            _percent(each.device_busy),
            _percent(each.other_busy),
            *map(number, (each.turns_per_request, each.allocator_us_per_turn, each.handover_us, each.lateness_p99_ms)),
        )
    return [ratios, late, machine]


def model_tables(figures: Sequence[Figures], load: float | None) -> list[Table]:
    """At one load: a line per competitor and a column per model; one table for each of four figures."""
    at_load = [each for each in figures if each.load == load]
    by_key = {(each.competitor, each.model): each for each in at_load}
    models = list(dict.fromkeys(each.model for each in at_load))
    tables = []
    shown_of: dict[str, Callable[[Figures], str]] = {
        "later than 4x": lambda each: _percent(each.late),
        "mean response ratio": lambda each: number(each.ratio_mean),
        "jitter": lambda each: number(each.jitter),
        "response time with nothing else going on, ms": lambda each: number(each.alone_ms),
    }
    for title, shown in shown_of.items():
        table = _table(f"Load {_load(load)}, by model: {title}")
        table.add_column("competitor", no_wrap=True)
        for model in models:
            isolated_ms = by_key[at_load[0].competitor, model].isolated_ms
            heading = model if isolated_ms is None else f"{model}\n{number(isolated_ms)} ms"
            table.add_column(heading, justify="right")
        for competitor in dict.fromkeys(each.competitor for each in at_load):
            table.add_row(competitor, *(shown(by_key[competitor, model]) for model in models))
        tables.append(table)
    return tables


def difference_table(differences: Sequence[Difference]) -> Table:
    """Ours against each other, with confidence intervals."""
    table = _table("Differences on the same arrivals, 95 % confidence over rounds")
    table.add_column("against", no_wrap=True)
    table.add_column("load", justify="right")
    table.add_column("figure", no_wrap=True)
    ours = differences[0].ours if differences else "ours"
    for heading in (ours, "other", "diff.", "from", "to", "less by"):
        table.add_column(heading, justify="right")
    for each in differences:
        shown = _percent if each.figure.startswith("violation") else number
        values = (each.ours_value, each.other_value, each.difference, each.low, each.high)
        table.add_row(each.other, _load(each.load), each.figure, *map(shown, values), _percent(each.reduction))
    return table


def prediction_table(predictions: Sequence[Prediction]) -> Table:
    """The simulator beside the live rounds."""
    table = _table("Later than 4x: simulated with measured costs, and live")
    table.add_column("mode", no_wrap=True)
    for heading in ("load", "simulated", "live", "points", "without path", "hand-over us"):
        table.add_column(heading, justify="right")
    for each in predictions:
        table.add_row(
            each.competitor,
            _load(each.load),
            f"{each.simulated:.1%}",
            f"{each.live:.1%}",
            f"{100 * (each.live - each.simulated):+.1f}",
            f"{each.device_only:.1%}",
            f"{each.handover_us:.0f}",
        )
    return table


def _load(load: float | None) -> str:
    return "closed" if load is None else f"{load:g}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def _table(title: str, *, caption: str | None = None) -> Table:
    return Table(
        title=f"\n{title}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        caption=caption,
        caption_justify="left",
    )
