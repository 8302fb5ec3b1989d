"""The figures of one competitor at one load, over all its rounds: per model and over all models.

Words: response ratio = max(1, (finish - scheduled arrival) / isolated time), measured by the client with everything on
the way; violation(alpha) = share of requests with a ratio above alpha, where a refused or failed request counts as
one; jitter = standard deviation of the ratio over the requests that were answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.load.report import ALL_MODELS, Outcome, response_ratio, violation_share
from benchmarks.serve.competitors import COMPETITORS
from benchmarks.serve.records import Round, Setting
from benchmarks.serve.turns import handover_s

ALPHAS = (1.2, 2.0, 3.0, 4.0, 6.0, 10.0)
MAIN_ALPHA = 4.0
_GOOD_SHARE = 0.99
_REFUSED = ("HTTP 503", "gRPC RESOURCE_EXHAUSTED", "QueueFullError", "ModelQueueFullError", "RefusedError")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one competitor showed at one load.

    Attributes:
        competitor: Its name.
        load: Share of the device's time asked for; None: a closed loop.
        model: A model, or ``all``.
        is_pinned: Inference had the device's cores, which nothing else used.
        num_rounds: Rounds in it.
        num_requests: Requests sent.
        num_refused: Those that the server refused as too many or too late.
        num_failed: Those without an answer for any other reason.
        ratio_mean: Response ratio of the answered requests, None where there is none; so the next four.
        ratio_p50: Median.
        ratio_p95: 95th percentile.
        ratio_p99: 99th percentile.
        ratio_max: Largest.
        violations: Alpha -> share of requests above it, 0 to 1.
        jitter: Standard deviation of the ratio; None without answers.
        throughput_per_s: Answers per second, from the first arrival to the last answer of a round.
        goodput_per_s: The same for answers within the model's alpha.
        is_99_on_time: At least 99 % of the requests were answered within the model's alpha.
        device_busy: Share of the time that the device's cores were busy; only for ``all``, and so the rest.
        other_busy: The same for the other cores: ingress, proxies and the load generator.
        allocator_us_per_turn: Processor time of the allocator's process per turn on the device, microseconds; what Ray
            does in that process all the time is in it.
        handover_us: Median time that the device is idle when it changes hands, microseconds.
        turns_per_request: Turns on the device per request.
        lateness_p99_ms: 99th percentile of the load generator's own lateness.
        alone_ms: Response time with nothing else going on, median over rounds; only per model.
        isolated_ms: The model alone in plain ONNX Runtime; only per model.
        largest_difference: From the answers of plain ONNX Runtime, relative; 0.0: bit-identical.
    """

    competitor: str
    load: float | None
    model: str
    is_pinned: bool
    num_rounds: int
    num_requests: int
    num_refused: int
    num_failed: int
    ratio_mean: float | None
    ratio_p50: float | None
    ratio_p95: float | None
    ratio_p99: float | None
    ratio_max: float | None
    violations: dict[str, float]
    jitter: float | None
    throughput_per_s: float
    goodput_per_s: float
    is_99_on_time: bool
    device_busy: float | None
    other_busy: float | None
    allocator_us_per_turn: float | None
    handover_us: float | None
    turns_per_request: float | None
    lateness_p99_ms: float
    alone_ms: float | None
    isolated_ms: float | None
    largest_difference: float

    @property
    def late(self) -> float:
        """Violations at 4 times the isolated time."""
        return self.violations[f"{MAIN_ALPHA:g}"]


def make_figures(rounds: Sequence[Round], setting: Setting) -> list[Figures]:
    """For each competitor and load one per model and then one over all, in order of first appearance and load."""
    groups = by_competitor_and_load(rounds)
    return [_figures(group, setting, model) for group in groups.values() for model in (*setting.isolated_s, ALL_MODELS)]


def by_competitor_and_load(rounds: Iterable[Round]) -> dict[tuple[str, float | None], list[Round]]:
    """The rounds of each competitor at each load, in order of load."""
    groups: dict[tuple[str, float | None], list[Round]] = {}
    for each in sorted(rounds, key=lambda each: each.load or 0.0):
        groups.setdefault((each.competitor, each.load), []).append(each)
    return groups


def ratios_of(outcomes: Iterable[Outcome], setting: Setting) -> list[float]:
    """Response ratio of each request, infinite for one without an answer."""
    return [response_ratio(outcome, setting.isolated_s) for outcome in outcomes]


def outcomes_of(each: Round, model: str) -> list[Outcome]:
    """The round's requests for a model, or all."""
    return [outcome for outcome in each.outcomes if model in (outcome.model, ALL_MODELS)]


def _figures(rounds: Sequence[Round], setting: Setting, model: str) -> Figures:
    outcomes = [outcome for each in rounds for outcome in outcomes_of(each, model)]
    ratios = ratios_of(outcomes, setting)
    answered = np.array([ratio for ratio in ratios if math.isfinite(ratio)])
    on_time = sum(ratio <= setting.alpha[each.model] for ratio, each in zip(ratios, outcomes, strict=True))
    time_s = sum(max((each.finished_s for each in round_.outcomes), default=0.0) for round_ in rounds)
    num_refused = sum(outcome.failure in _REFUSED for outcome in outcomes)
    first, is_all = rounds[0], model == ALL_MODELS
    turns = sum(len(each.slices) for each in rounds)
    allocator_s = [each.allocator_s for each in rounds if each.allocator_s is not None]
    mode = COMPETITORS[first.competitor].mode
    idle_s = [gap for each in rounds for gap in handover_s(each.slices)] if mode and mode.exclusive else []

    def percentile(percent: float) -> float | None:
        return float(np.percentile(answered, percent)) if answered.size else None

    return Figures(
        competitor=first.competitor,
        load=first.load,
        model=model,
        is_pinned=setting.is_pinned,
        num_rounds=len(rounds),
        num_requests=len(ratios),
        num_refused=num_refused,
        num_failed=len(ratios) - answered.size - num_refused,
        ratio_mean=float(answered.mean()) if answered.size else None,
        ratio_p50=percentile(50),
        ratio_p95=percentile(95),
        ratio_p99=percentile(99),
        ratio_max=percentile(100),
        violations={f"{alpha:g}": violation_share(ratios, alpha) for alpha in ALPHAS},
        jitter=float(answered.std()) if answered.size else None,
        throughput_per_s=answered.size / time_s if time_s else 0.0,
        goodput_per_s=on_time / time_s if time_s else 0.0,
        is_99_on_time=bool(ratios) and on_time >= _GOOD_SHARE * len(ratios),
        device_busy=_mean(each.device_busy for each in rounds) if is_all else None,
        other_busy=_mean(each.other_busy for each in rounds) if is_all else None,
        allocator_us_per_turn=sum(allocator_s) / turns * 1e6 if is_all and turns and allocator_s else None,
        handover_us=float(np.median(idle_s)) * 1e6 if is_all and idle_s else None,
        turns_per_request=turns / len(ratios) if is_all and turns and ratios else None,
        lateness_p99_ms=float(np.percentile([each.lateness_s for each in outcomes], 99)) * 1e3 if outcomes else 0.0,
        alone_ms=None if is_all else float(np.median([each.alone_s[model] for each in rounds])) * 1e3,
        isolated_ms=None if is_all else setting.isolated_s[model] * 1e3,
        largest_difference=max(each.largest_difference for each in rounds),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
