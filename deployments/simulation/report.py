"""Tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from deployments.simulation.experiment import Result
from deployments.simulation.gap import Gap
from deployments.simulation.measures import Measures
from deployments.simulation.scaling import Scaling


def results_table(results: Sequence[Result], *, title: str) -> Table:
    """One row per result."""
    table = Table(title=title)
    for column in ("policy", "mix", "load"):
        table.add_column(column)
    alphas = list(results[0].measures.overall.violation_pct)
    table.add_column(f"late % at {' / '.join(f'{alpha:g}' for alpha in alphas)}", justify="right")
    for column in ("refused %", "jitter", "mean", "p50", "p99", "max", "on time per s", "device %"):
        table.add_column(column, justify="right")
    for result in results:
        overall = result.measures.overall
        load = result.workload.load
        table.add_row(
            result.contender.label,
            result.workload.mix,
            "-" if load is None else f"{load:g}",
            *_cells(overall),
            f"{result.measures.goodput_per_s:.1f}",
            f"{result.measures.device_use_pct:.0f}",
        )
    return table


def models_table(results: Sequence[Result], *, title: str) -> Table:
    """One row per result and model."""
    table = Table(title=title)
    for column in ("policy", "mix", "load", "model", "requests"):
        table.add_column(column)
    table.add_column("late %", justify="right")
    for column in ("refused %", "jitter", "mean", "p50", "p99", "max"):
        table.add_column(column, justify="right")
    for result in results:
        load = "-" if result.workload.load is None else f"{result.workload.load:g}"
        for model, measures in result.measures.by_model.items():
            row = (result.contender.label, result.workload.mix, load, model, str(measures.num_requests))
            table.add_row(*row, *_cells(measures))
    return table


def _cells(measures: Measures) -> tuple[str, ...]:
    return (
        " / ".join(f"{share:.1f}" for share in measures.violation_pct.values()),
        f"{measures.refused_pct:.1f}",
        f"{measures.jitter:.2f}",
        f"{measures.mean:.2f}",
        f"{measures.p50:.2f}",
        f"{measures.p99:.1f}",
        f"{measures.max:.1f}",
    )


def gap_table(gaps: Sequence[Gap]) -> Table:
    """One row per contender: late requests above the offline optimum."""
    table = Table(title=f"late requests in {gaps[0].num_instances} bursts, {gaps[0].num_requests} requests in all")
    for column in ("policy", "late", "optimum", "gap", "bursts as good as the optimum"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for gap in gaps:
        table.add_row(
            gap.contender.label,
            str(gap.num_late),
            str(gap.num_late_best),
            str(gap.num_late - gap.num_late_best),
            f"{100.0 * gap.num_optimal / gap.num_instances:.0f} %",
        )
    return table


def scaling_table(rows: Sequence[Scaling]) -> Table:
    """One row per number of devices, policy and router."""
    num_seeds = rows[0].num_seeds
    over = "" if num_seeds == 1 else f"; mean over {num_seeds} seeds ± half of its 95 % confidence interval"
    table = Table(title=f"several devices, the same load on each{over}")
    for column in ("devices", "load", "policy", "router"):
        table.add_column(column, justify="left" if column in ("policy", "router") else "right")
    alphas = " / ".join(f"{alpha:g}" for alpha in rows[0].late_pct)
    for column in (
        "requests/s",
        "on time/s",
        "on time/s, each",
        f"late % at {alphas}",
        "p99",
        "device %",
        "hops %",
        "turns",
        "us",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            str(row.num_devices),
            f"{row.load:g}",
            row.policy,
            row.router,
            f"{row.requests_per_s:.0f}",
            f"{row.goodput_per_s:.0f}",
            f"{row.goodput_per_s / row.num_devices:.1f}{_half(row.goodput_ci95 / row.num_devices, row)}",
            " / ".join(f"{share:.1f}{_half(row.late_ci95[alpha], row)}" for alpha, share in row.late_pct.items()),
            f"{row.p99:.1f}",
            f"{row.device_use_pct:.0f}",
            f"{row.hops_pct:.0f}",
            f"{row.turns_per_request:.2f}",
            f"{row.decision_us:.0f}",
        )
    return table


def _half(ci95: float, row: Scaling) -> str:
    return "" if row.num_seeds == 1 else f" ± {ci95:.1f}"
