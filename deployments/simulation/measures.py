"""What runs are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deployments.simulation.simulator import Run

DEFAULT_ALPHAS = (2.0, 3.0, 4.0)
_ROUNDING = 1e-9
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantile of Student's t by degrees of freedom, from 1; from 31 on it is taken for the normal's."""
_Z_975 = 1.96


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
    """Runs of one kind, condensed.

    Attributes:
        overall: Over all requests.
        by_model: Per model.
        goodput_per_s: Requests per second that ended before their deadline.
        device_use_pct: Per cent of the time that the device ran blocks; of several the mean.
        num_turns: Turns in all.
        violation_ci95: By alpha, half of the 95 % confidence interval over the runs, in per cent; 0 for a single run.
        jitter_ci95: The same for the jitter.
    """

    overall: Measures
    by_model: dict[str, Measures]
    goodput_per_s: float
    device_use_pct: float
    num_turns: int
    violation_ci95: dict[float, float]
    jitter_ci95: float


def response_ratios(run: Run) -> npt.NDArray[np.float64]:
    """Response ratio of each request, in arrival order: float64, shape (requests,), infinity for a refused one."""
    finish_s = run.finish_s
    return np.array(
        [
            max(1.0, (finish_s[request.request_id] - request.arrival_s) / request.isolated_s)
            if request.request_id in finish_s
            else np.inf
            for request in run.requests
        ]
    )


def measure(runs: Sequence[Run], *, alphas: Sequence[float] = DEFAULT_ALPHAS) -> RunMeasures:
    """The measures of at least one run, all requests of all runs taken together."""
    by_run = [response_ratios(run) for run in runs]
    ratios = np.concatenate(by_run)
    single = [measure_ratios(each, alphas=alphas) for each in by_run]
    models = np.array([request.model for run in runs for request in run.requests])
    num_on_time = sum(
        run.finish_s.get(request.request_id, np.inf) <= request.deadline_s + _ROUNDING
        for run in runs
        for request in run.requests
    )
    duration_s = sum(max(run.finish_s.values(), default=0.0) - run.requests[0].arrival_s for run in runs)
    return RunMeasures(
        overall=measure_ratios(ratios, alphas=alphas),
        by_model={
            model: measure_ratios(ratios[models == model], alphas=alphas) for model in sorted(set(models.tolist()))
        },
        goodput_per_s=num_on_time / duration_s if duration_s > 0.0 else 0.0,
        device_use_pct=100.0 * sum(run.busy_s / run.num_devices for run in runs) / duration_s
        if duration_s > 0.0
        else 0.0,
        num_turns=sum(run.num_turns for run in runs),
        violation_ci95={alpha: ci95([each.violation_pct[alpha] for each in single]) for alpha in alphas},
        jitter_ci95=ci95([each.jitter for each in single]),
    )


def ci95(values: Sequence[float]) -> float:
    """Half of the 95 % confidence interval of the mean, by Student's t; 0 for one value."""
    freedom = len(values) - 1
    if not freedom:
        return 0.0
    quantile = _T_975[freedom - 1] if freedom <= len(_T_975) else _Z_975
    return float(quantile * np.std(values, ddof=1) / len(values) ** 0.5)


def measure_ratios(ratios: npt.NDArray[np.float64], *, alphas: Sequence[float] = DEFAULT_ALPHAS) -> Measures:
    """The measures of response ratios: float64, shape (requests,), infinity for a refused request."""
    served = ratios[np.isfinite(ratios)]
    if not served.size:
        served = np.array([np.nan])
    return Measures(
        num_requests=len(ratios),
        violation_pct={alpha: float(100.0 * np.mean(ratios > alpha + _ROUNDING)) for alpha in alphas},
        refused_pct=float(100.0 * np.mean(np.isinf(ratios))),
        jitter=float(np.std(served)),
        mean=float(np.mean(served)),
        p50=float(np.median(served)),
        p99=float(np.percentile(served, 99)),
        max=float(np.max(served)),
    )
