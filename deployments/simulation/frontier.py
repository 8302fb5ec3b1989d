"""How a policy trades late requests for a short tail: the same policy at several settings of its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from deployments.simulation.contenders import read_contender
from deployments.simulation.experiment import Result, Setting, Workload, compare

_RESERVES = ("none", "2", "1", "0.375", "0.25", "0")

FAMILIES: Mapping[str, Sequence[str]] = {
    "slo, late_reserve, no promotion": tuple(
        f"slo;late_reserve={value};starvation_bound_ratio=none" for value in _RESERVES
    ),
    "slo, late_reserve, promotion at 20 x": tuple(f"slo;late_reserve={value}" for value in _RESERVES),
    "srpt, promotion": tuple(f"srpt;starvation_bound_ratio={value}" for value in ("none", "20", "10", "5")),
    "edf": ("edf",),
    "response_ratio, every block": ("response_ratio",),
    "sjf, whole": ("sjf;split=whole",),
    "fifo, whole": ("fifo;split=whole",),
}

PlotPoint = tuple[str, float, float]


def measure_frontier(
    workload: Workload, setting: Setting, *, on_result: Callable[[Result], None] | None = None
) -> dict[str, list[Result]]:
    """The results of each family on this workload, in the order of its settings."""
    return {
        family: compare([read_contender(text) for text in texts], [workload], setting, on_result=on_result)
        for family, texts in FAMILIES.items()
    }


def plot_points(frontier: Mapping[str, Sequence[Result]], alpha: float) -> dict[str, list[PlotPoint]]:
    """By family: (setting, per cent later than alpha, jitter) of each member."""
    return {
        family: [
            (
                result.contender.label.split(";")[1].split("=")[1] if ";" in result.contender.label else "",
                result.measures.overall.violation_pct[alpha],
                result.measures.overall.jitter,
            )
            for result in results
        ]
        for family, results in frontier.items()
    }
