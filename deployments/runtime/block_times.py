"""Predicted block times that follow what is measured, so that a plan from another day or machine corrects itself."""

from __future__ import annotations

_WEIGHT = 0.1
_OUTLIER = 3.0
_WEIGHT_OF_FIRST = 0.5


class BlockTimes:
    """A robust moving average per block: one outlier moves it by little, a lasting change moves it fully.

    Each measured time is clipped to three times the average before it counts with weight 0.1 (0.5 for the first
    three, so that warm-up replaces what stands in the plan). Threads may share it that observe different blocks.
    """

    def __init__(self, planned_s: tuple[float, ...], planned_isolated_s: float) -> None:
        """Start from the plan.

        Args:
            planned_s: Time of each block in seconds, all > 0.
            planned_isolated_s: Time of the whole model in seconds, > 0.
        """
        self._times_s = list(planned_s)
        self._num_measured = [0] * len(planned_s)
        self._totals_s = [0.0] * len(planned_s)
        self._isolated_share = planned_isolated_s / sum(planned_s)

    def observe(self, block: int, time_s: float) -> None:
        """Block number ``block`` took ``time_s`` seconds."""
        self._totals_s[block] += time_s
        average_s = self._times_s[block]
        weight = _WEIGHT_OF_FIRST if self._num_measured[block] < 3 else _WEIGHT
        self._num_measured[block] += 1
        self._times_s[block] = average_s + weight * (min(time_s, _OUTLIER * average_s) - average_s)

    @property
    def total_s(self) -> float:
        """The sum of all times measured, unclipped, in seconds."""
        return sum(self._totals_s)

    @property
    def times_s(self) -> tuple[float, ...]:
        """Predicted time of each block in seconds."""
        return tuple(self._times_s)

    @property
    def isolated_s(self) -> float:
        """Predicted time of the whole model alone: the plan's, scaled like the blocks since then."""
        return self._isolated_share * sum(self._times_s)
