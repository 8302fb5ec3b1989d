"""What a run is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deployments.simulation.simulator import Run

DEFAULT_ALPHAS = (2.0, 3.0, 4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Response ratios of some requests, condensed.

    Attributes:
        num_requests: Requests, the refused ones included.
        violation_pct: By alpha, per cent of the requests with a response ratio above it; a refused one counts.
        refused_pct: Per cent of the requests that were refused.
        jitter: Standard deviation of the response ratio of those served.
        mean: Their mean response ratio.
        p50: Its median.
        p99: Its 99th percentile.
        max: Its maximum.
    """

    num_requests: int
    violation_pct: dict[float, float]
    refused_pct: float
    jitter: float
    mean: float
    p50: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMeasures:
    """A run, condensed.

    Attributes:
        overall: Over all requests.
        by_model: Per model.
        goodput_per_s: Requests per second that ended before their deadline.
        device_use_pct: Per cent of the time that the device ran blocks.
        duration_s: From the first arrival to the last end, in seconds.
        num_turns: Turns in all.
    """

    overall: Measures
    by_model: dict[str, Measures]
    goodput_per_s: float
    device_use_pct: float
    duration_s: float
    num_turns: int


def measure(run: Run, *, alphas: Sequence[float] = DEFAULT_ALPHAS) -> RunMeasures:
    """The measures of a run with at least one request."""
    finish_s = run.finish_s
    ratios = np.array(
        [
            max(1.0, (finish_s[request.request_id] - request.arrival_s) / request.isolated_s)
            if request.request_id in finish_s
            else np.inf
            for request in run.requests
        ]
    )
    models = np.array([request.model for request in run.requests])
    num_on_time = sum(finish_s.get(request.request_id, np.inf) <= request.deadline_s + 1e-9 for request in run.requests)
    duration_s = max(finish_s.values(), default=0.0) - run.requests[0].arrival_s
    return RunMeasures(
        overall=measure_ratios(ratios, alphas=alphas),
        by_model={
            model: measure_ratios(ratios[models == model], alphas=alphas) for model in sorted(set(models.tolist()))
        },
        goodput_per_s=num_on_time / duration_s if duration_s > 0.0 else 0.0,
        device_use_pct=100.0 * run.busy_s / duration_s if duration_s > 0.0 else 0.0,
        duration_s=duration_s,
        num_turns=run.num_turns,
    )


def measure_ratios(ratios: npt.NDArray[np.float64], *, alphas: Sequence[float] = DEFAULT_ALPHAS) -> Measures:
    """The measures of response ratios: float64, shape (requests,), infinity for a refused request."""
    served = ratios[np.isfinite(ratios)]
    if not served.size:
        served = np.array([np.nan])
    return Measures(
        num_requests=len(ratios),
        violation_pct={alpha: float(100.0 * np.mean(ratios > alpha + 1e-9)) for alpha in alphas},
        refused_pct=float(100.0 * np.mean(np.isinf(ratios))),
        jitter=float(np.std(served)),
        mean=float(np.mean(served)),
        p50=float(np.median(served)),
        p99=float(np.percentile(served, 99)),
        max=float(np.max(served)),
    )
