"""What a run shows: response ratios, violations and jitter per model.

Words: response ratio = max(1, (finish - scheduled arrival) / isolated time), measured by the client with
everything on the way; violation(alpha) = share of requests with a ratio above alpha, where a failed request counts
as one; jitter = standard deviation of the ratio over the requests that were answered.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

ALL_MODELS = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one request went; times in seconds on one clock.

    Attributes:
        model: Which model it was for.
        scheduled_s: When it was to be sent.
        sent_s: When it was sent.
        finished_s: When its answer or failure was there.
        failure: Why it failed, in words that are the same for all of that kind; None if it was answered.
        detail: The server's or the system's own words about it.
    """

    model: str
    scheduled_s: float
    sent_s: float
    finished_s: float
    failure: str | None
    detail: str = ""

    @property
    def lateness_s(self) -> float:
        """How much later than scheduled it was sent: the generator's own fault, part of the response time."""
        return self.sent_s - self.scheduled_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Figures of one model in one run, or of all its models (``model`` is ``all`` then).

    Attributes:
        mode: Mode of the server, or another name of the run.
        model: Name of the model.
        isolated_ms: What the ratios refer to; None for all models.
        num_requests: Requests sent.
        num_failed: Those without an answer.
        ratio_mean: Response ratio of the answered requests, None where there is none; so the next three.
        ratio_p50: Median.
        ratio_p95: 95th percentile.
        ratio_max: Largest.
        violation_2x: Share of requests (0 to 1) above 2 times the isolated time, or failed.
        violation_4x: The same for 4 times.
        jitter: Standard deviation of the ratio; None without answers.
        lateness_p99_ms: 99th percentile of the generator's own lateness.
        failures: Reason -> number of requests.
        first_detail: What was said about the first failure; empty without one.
    """

    mode: str
    model: str
    isolated_ms: float | None
    num_requests: int
    num_failed: int
    ratio_mean: float | None
    ratio_p50: float | None
    ratio_p95: float | None
    ratio_max: float | None
    violation_2x: float
    violation_4x: float
    jitter: float | None
    lateness_p99_ms: float
    failures: dict[str, int]
    first_detail: str


def response_ratio(outcome: Outcome, isolated_s: Mapping[str, float]) -> float:
    """The request's response ratio; infinite if it failed."""
    if outcome.failure is not None:
        return math.inf
    return max(1.0, (outcome.finished_s - outcome.scheduled_s) / isolated_s[outcome.model])


def violation_share(ratios: Sequence[float], alpha: float) -> float:
    """Share of the requests whose ratio is above ``alpha``, 0 to 1; 0 without requests."""
    return sum(ratio > alpha for ratio in ratios) / len(ratios) if ratios else 0.0


def make_reports(outcomes: Sequence[Outcome], isolated_s: Mapping[str, float], *, mode: str) -> tuple[Report, ...]:
    """One report per model in the order of ``isolated_s``, then one over all of them."""
    reports = [
        _report([outcome for outcome in outcomes if outcome.model == model], isolated_s, mode=mode, model=model)
        for model in isolated_s
    ]
    return (*reports, _report(outcomes, isolated_s, mode=mode, model=ALL_MODELS))


def _report(outcomes: Sequence[Outcome], isolated_s: Mapping[str, float], *, mode: str, model: str) -> Report:
    ratios = [response_ratio(outcome, isolated_s) for outcome in outcomes]
    answered = np.array([ratio for ratio in ratios if math.isfinite(ratio)])
    has_answers = answered.size > 0
    lateness_s = [outcome.lateness_s for outcome in outcomes]
    return Report(
        mode=mode,
        model=model,
        isolated_ms=isolated_s[model] * 1e3 if model in isolated_s else None,
        num_requests=len(ratios),
        num_failed=len(ratios) - answered.size,
        ratio_mean=float(answered.mean()) if has_answers else None,
        ratio_p50=float(np.percentile(answered, 50)) if has_answers else None,
        ratio_p95=float(np.percentile(answered, 95)) if has_answers else None,
        ratio_max=float(answered.max()) if has_answers else None,
        violation_2x=violation_share(ratios, 2),
        violation_4x=violation_share(ratios, 4),
        jitter=float(answered.std()) if has_answers else None,
        lateness_p99_ms=float(np.percentile(lateness_s, 99)) * 1e3 if lateness_s else 0.0,
        failures=dict(Counter(outcome.failure for outcome in outcomes if outcome.failure is not None)),
        first_detail=next((outcome.detail for outcome in outcomes if outcome.failure is not None), ""),
    )


def to_json(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Dataclass objects as a list of objects with JSON types."""
    return [dataclasses.asdict(row) for row in rows]


def report_table(reports: Sequence[Report], *, title: str) -> Table:
    """One run: a line per model and one for all of them; fits 80 columns."""
    table = _table(title)
    for heading in ("alone\nms", "\nsent", "\nfailed", "ratio\nmean", "\np50", "\np95", "\nmax"):
        table.add_column(heading, justify="right")
    for heading in ("late\n> 2x", "late\n> 4x", "\njitter"):
        table.add_column(heading, justify="right")
    for report in reports:
        table.add_row(
            report.model,
            number(report.isolated_ms),
            str(report.num_requests),
            str(report.num_failed),
            number(report.ratio_mean),
            number(report.ratio_p50),
            number(report.ratio_p95),
            number(report.ratio_max),
            f"{report.violation_2x:.1%}",
            f"{report.violation_4x:.1%}",
            number(report.jitter),
            style="bold" if report.model == ALL_MODELS else None,
        )
    return table


def comparison_table(reports: Sequence[Report]) -> Table:
    """All runs side by side: per model and mode, the share above 4x and the 95th percentile of the ratio."""
    modes = list(dict.fromkeys(report.mode for report in reports))
    models = list(dict.fromkeys(report.model for report in reports))
    by_key = {(report.mode, report.model): report for report in reports}
    table = _table("Same arrivals: late, p95 of the ratio")
    table.add_column("alone\nms", justify="right")
    for mode in modes:
        table.add_column(f"{mode}\n> 4x", justify="right")
        table.add_column("\np95", justify="right")
    for model in models:
        of_model = [by_key.get((mode, model)) for mode in modes]
        cells: list[str] = []
        for report in of_model:
            cells += ("", "") if report is None else (f"{report.violation_4x:.1%}", number(report.ratio_p95))
        isolated_ms = next((report.isolated_ms for report in of_model if report is not None), None)
        table.add_row(model, number(isolated_ms), *cells, style="bold" if model == ALL_MODELS else None)
    return table


def _table(title: str) -> Table:
    table = Table(
        title=f"\n{title}", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_edge=False, padding=0
    )
    table.add_column("\nmodel", no_wrap=True)
    return table


def number(value: float | None) -> str:
    """Three digits, or all those before the point."""
    if value is None:
        return "-"
    size = abs(value)
    return f"{value:.2f}" if size < 10 else f"{value:.1f}" if size < 100 else f"{value:.0f}"
