"""The figures of a report, by hand."""

from __future__ import annotations

import io
import json
import math

import pytest
from rich.console import Console

from benchmarks.load.report import (
    Outcome,
    comparison_table,
    make_reports,
    report_table,
    response_ratio,
    to_json,
    violation_share,
)

ISOLATED_S = {"a": 0.1, "b": 1.0}


def outcome(model: str, took_s: float, *, failure: str | None = None, late_s: float = 0.0) -> Outcome:
    return Outcome(model=model, scheduled_s=5.0, sent_s=5.0 + late_s, finished_s=5.0 + took_s, failure=failure)


OUTCOMES = [
    outcome("a", 0.1),
    outcome("a", 0.3),
    outcome("a", 0.5),
    outcome("a", 0.01, failure="HTTP 503", late_s=0.002),
    outcome("b", 0.9),
]


def test_the_ratio_counts_from_the_scheduled_arrival_and_is_at_least_one() -> None:
    assert response_ratio(outcome("a", 0.3, late_s=0.2), ISOLATED_S) == pytest.approx(3)
    assert response_ratio(outcome("a", 0.05), ISOLATED_S) == 1
    assert response_ratio(outcome("a", 0.05, failure="gone"), ISOLATED_S) == math.inf


def test_a_report_has_the_figures_of_its_model() -> None:
    report = make_reports(OUTCOMES, ISOLATED_S, mode="slo")[0]
    assert (report.mode, report.model, report.isolated_ms) == ("slo", "a", pytest.approx(100))
    assert (report.num_requests, report.num_failed) == (4, 1)
    assert (report.ratio_mean, report.ratio_p50, report.ratio_max) == (
        pytest.approx(3),
        pytest.approx(3),
        pytest.approx(5),
    )
    assert report.jitter == pytest.approx((8 / 3) ** 0.5)
    assert report.lateness_p99_ms == pytest.approx(2, rel=0.05)


def test_a_failed_request_is_a_violation_whatever_alpha_is() -> None:
    report = make_reports(OUTCOMES, ISOLATED_S, mode="slo")[0]
    assert (report.violation_2x, report.violation_4x) == (0.75, 0.5)
    assert report.failures == {"HTTP 503": 1}
    assert violation_share([1, 4, math.inf], 1e9) == pytest.approx(1 / 3)
    assert violation_share([4.0], 4) == 0


def test_the_last_report_is_over_all_models() -> None:
    overall = make_reports(OUTCOMES, ISOLATED_S, mode="slo")[-1]
    assert (overall.model, overall.isolated_ms, overall.num_requests) == ("all", None, 5)
    assert overall.violation_4x == pytest.approx(0.4)


def test_a_model_without_answers_has_no_ratios() -> None:
    report = make_reports([outcome("b", 1, failure="gone")], ISOLATED_S, mode="slo")[1]
    assert (report.ratio_p50, report.jitter, report.violation_4x) == (None, None, 1.0)
    nothing_sent = make_reports([], ISOLATED_S, mode="slo")[0]
    assert (nothing_sent.num_requests, nothing_sent.violation_4x, nothing_sent.ratio_max) == (0, 0.0, None)


def test_reports_become_a_list_of_json_objects() -> None:
    objects = json.loads(json.dumps(to_json(make_reports(OUTCOMES, ISOLATED_S, mode="slo")), allow_nan=False))
    assert [(entry["mode"], entry["model"]) for entry in objects] == [("slo", "a"), ("slo", "b"), ("slo", "all")]


def test_tables_name_every_model_and_mode() -> None:
    reports = make_reports(OUTCOMES, ISOLATED_S, mode="slo") + make_reports(OUTCOMES[:1], ISOLATED_S, mode="fifo")
    console = Console(width=80, file=io.StringIO())
    console.print(report_table(reports[:3], title="slo"))
    console.print(comparison_table(reports))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "…" not in text
    for word in ("slo", "fifo", "> 4x", "50.0%", "jitter", "all"):
        assert word in text
