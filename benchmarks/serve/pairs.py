"""Is the difference between two competitors more than chance? Rounds are pairs: equal numbers had equal arrivals.

Confidence intervals by the percentile bootstrap over rounds (Efron, 1979): rounds are drawn with replacement, both
competitors take the same ones, and the figure is computed anew from all their requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.load.report import ALL_MODELS
from benchmarks.serve.figures import MAIN_ALPHA, outcomes_of, ratios_of
from benchmarks.serve.records import Round, Setting

NUM_RESAMPLES = 1000
_LOW_PCT, _HIGH_PCT = 2.5, 97.5

Ratios = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One figure of a competitor against ours at one load.

    Attributes:
        load: Share of the device's time asked for; None: a closed loop.
        ours: Who is compared.
        other: With whom.
        figure: Which figure, named as in ``Figures``.
        ours_value: Ours.
        other_value: The other's.
        difference: Ours minus the other's.
        low: Lower end of its 95 % confidence interval; None with one round.
        high: Upper end.
        num_rounds: Pairs of rounds.
    """

    load: float | None
    ours: str
    other: str
    figure: str
    ours_value: float
    other_value: float
    difference: float
    low: float | None
    high: float | None
    num_rounds: int

    @property
    def reduction(self) -> float | None:
        """How much smaller ours is, as a share of the other's; None if that is zero."""
        return 1.0 - self.ours_value / self.other_value if self.other_value else None


def _late(ratios: Ratios) -> float:
    return float(np.mean(ratios > MAIN_ALPHA))


def _of_answered(figure: Callable[[Ratios], Any]) -> Callable[[Ratios], float]:
    """The figure over the requests that were answered; NaN without any."""

    def of_answered(ratios: Ratios) -> float:
        answered = ratios[np.isfinite(ratios)]
        return float(figure(answered)) if answered.size else np.nan

    return of_answered


FIGURES: Mapping[str, Callable[[Ratios], float]] = {
    "violation_4x": _late,
    "jitter": _of_answered(np.std),
    "ratio_mean": _of_answered(np.mean),
    "ratio_p99": _of_answered(lambda ratios: np.percentile(ratios, 99)),
}


def compare(
    rounds: Sequence[Round], setting: Setting, *, ours: str, seed: int = 0, model: str = ALL_MODELS
) -> list[Difference]:
    """``ours`` against every other competitor at every load both were measured at, over all models or one."""
    differences = []
    for load in sorted({each.load for each in rounds}, key=lambda load: load or 0.0):
        by_name: dict[str, dict[int, Ratios]] = {}
        for each in rounds:
            if each.load == load:
                ratios = np.array(ratios_of(outcomes_of(each, model), setting))
                by_name.setdefault(each.competitor, {})[each.number] = ratios
        for other in by_name:
            if other != ours and ours in by_name:
                differences += _compare_pair(by_name[ours], by_name[other], load, ours, other, seed)
    return differences


def _compare_pair(
    ours_by_number: Mapping[int, Ratios],
    other_by_number: Mapping[int, Ratios],
    load: float | None,
    ours: str,
    other: str,
    seed: int,
) -> list[Difference]:
    numbers = sorted(set(ours_by_number) & set(other_by_number))
    if not numbers:
        return []
    random = np.random.default_rng(seed)
    num_draws = NUM_RESAMPLES if len(numbers) > 1 else 0
    draws = random.integers(0, len(numbers), size=(num_draws, len(numbers)))

    def both(chosen: Sequence[int]) -> tuple[Ratios, Ratios]:
        mine = np.concatenate([ours_by_number[number] for number in chosen])
        return mine, np.concatenate([other_by_number[number] for number in chosen])

    all_mine, all_theirs = both(numbers)
    spreads: dict[str, list[float]] = {name: [] for name in FIGURES}
    for draw in draws:
        mine, theirs = both([numbers[index] for index in draw])
        for name, figure in FIGURES.items():
            spreads[name].append(figure(mine) - figure(theirs))
    differences = []
    for name, figure in FIGURES.items():
        ours_value, other_value, spread = figure(all_mine), figure(all_theirs), spreads[name]
        if np.isnan(ours_value) or np.isnan(other_value):
            continue
        differences.append(
            Difference(
                load=load,
                ours=ours,
                other=other,
                figure=name,
                ours_value=ours_value,
                other_value=other_value,
                difference=ours_value - other_value,
                low=float(np.nanpercentile(spread, _LOW_PCT)) if spread else None,
                high=float(np.nanpercentile(spread, _HIGH_PCT)) if spread else None,
                num_rounds=len(numbers),
            )
        )
    return differences
