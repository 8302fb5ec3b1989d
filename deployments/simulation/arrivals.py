"""Seeded synthetic arrivals.

Every model is a stream of its own with a share of the load. The mean gap of stream i is isolated_i / (share_i x load);
with shares in proportion to the isolated times (the default) all streams have the same mean gap, the sum of the
isolated times over the load. The streams are cut where the first of them ends, so that the mix stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

import numpy as np
import numpy.typing as npt

from deployments.scheduling.request import Request, RequestId
from deployments.simulation.workload import Arrival, SimulatedModel, make_request

Shape = Literal["poisson", "gamma", "onoff", "constant"]
SHAPES: tuple[Shape, ...] = ("poisson", "gamma", "onoff", "constant")

_Gaps = Callable[[np.random.Generator, float, int], npt.NDArray[np.float64]]


def _constant(random: np.random.Generator, mean_s: float, number: int) -> npt.NDArray[np.float64]:
    gaps_s = np.full(number, mean_s)
    gaps_s[0] = random.uniform(0.0, mean_s)
    return gaps_s


def _gamma(cv: float) -> _Gaps:
    shape = 1.0 / (cv * cv)
    return lambda random, mean_s, number: random.gamma(shape, mean_s / shape, number)


def _on_off(on_share: float, mean_burst: float) -> _Gaps:
    def gaps(random: np.random.Generator, mean_s: float, number: int) -> npt.NDArray[np.float64]:
        """Poisson at rate 1 / (mean x on_share) within a burst; pauses between bursts keep the mean gap."""
        gaps_s = random.exponential(mean_s * on_share, number)
        starts_burst = random.random(number) < 1.0 / mean_burst
        pause_s = mean_s * (1.0 - on_share) * mean_burst
        return gaps_s + np.where(starts_burst, random.exponential(pause_s, number), 0.0)

    return gaps


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalShape:
    """How the gaps of a stream are distributed.

    Attributes:
        shape: ``poisson``; ``gamma`` with a chosen coefficient of variation; ``onoff``: bursts of Poisson arrivals with
            pauses; ``constant``: equal gaps from a random first one on.
        cv: ``gamma``: coefficient of variation of the gaps.
        on_share: ``onoff``: share of the time that is within a burst.
        mean_burst: ``onoff``: mean number of arrivals in a burst.
    """

    shape: Shape = "poisson"
    cv: float = 2.0
    on_share: float = 0.3
    mean_burst: float = 10.0

    def gaps_s(self, random: np.random.Generator, mean_s: float, number: int) -> npt.NDArray[np.float64]:
        """Gaps with this mean: float64, shape (number,), seconds."""
        gaps: Mapping[Shape, _Gaps] = {
            "poisson": lambda random, mean_s, number: random.exponential(mean_s, number),
            "gamma": _gamma(self.cv),
            "onoff": _on_off(self.on_share, self.mean_burst),
            "constant": _constant,
        }
        return gaps[self.shape](random, mean_s, number)


def make_arrivals(
    models: Sequence[SimulatedModel],
    *,
    load: float,
    num_per_model: int,
    seed: int,
    shape: ArrivalShape | None = None,
    shares: Mapping[str, float] | None = None,
) -> list[Arrival]:
    """Arrivals of all models, in arrival order.

    Args:
        models: One stream each.
        load: Isolated run time that arrives per second, over all models.
        num_per_model: Arrivals of each stream before the cut.
        seed: Same seed, same arrivals.
        shape: Distribution of the gaps; None: Poisson.
        shares: Share of the load by model, summing up to 1; None: in proportion to the isolated times.
    """
    shape = shape or ArrivalShape()
    total_s = sum(model.isolated_s for model in models)
    streams = []
    for number, model in enumerate(models):
        random = np.random.default_rng((seed, number))
        share = model.isolated_s / total_s if shares is None else shares[model.name]
        mean_s = model.isolated_s / (share * load)
        streams.append(np.cumsum(shape.gaps_s(random, mean_s, num_per_model)))
    end_s = min(float(stream[-1]) for stream in streams)
    arrivals = [
        Arrival(arrival_s=arrival_s, model=model.name)
        for model, stream in zip(models, streams, strict=True)
        for arrival_s in stream[stream <= end_s].tolist()
    ]
    return sorted(arrivals, key=lambda arrival: arrival.arrival_s)


class ClosedLoop:
    """Clients that each send their next request a think time after the last one has ended.

    Args:
        models: Client i asks for model i, modulo their number, again and again.
        num_clients: How many.
        think_s: Mean think time in seconds, exponential.
        num_requests: Requests in all.
        alpha: Deadline of a request: arrival + alpha x isolated time.
        seed: Same seed, same think times.
    """

    def __init__(
        self,
        models: Sequence[SimulatedModel],
        *,
        num_clients: int,
        think_s: float,
        num_requests: int,
        alpha: float,
        seed: int,
    ) -> None:
        self._models = {model.name: model for model in models}
        self._think_s = think_s
        self._num_requests = num_requests
        self._alpha = alpha
        self._random = np.random.default_rng(seed)
        self._numbers = count()
        names = [models[client % len(models)].name for client in range(min(num_clients, num_requests))]
        first = [(self._think(), name) for name in names]
        self.first: list[Request] = [self._make(name, arrival_s) for arrival_s, name in sorted(first)]

    def next_request(self, ended: Request, now_s: float) -> Request | None:
        """The next request of the client whose last one ended; None when all have been sent."""
        number = next(self._numbers)
        if number >= self._num_requests:
            return None
        arrival = Arrival(arrival_s=now_s + self._think(), model=ended.model)
        return make_request(RequestId(str(number)), arrival, self._models, alpha=self._alpha)

    def _make(self, model: str, arrival_s: float) -> Request:
        arrival = Arrival(arrival_s=arrival_s, model=model)
        return make_request(RequestId(str(next(self._numbers))), arrival, self._models, alpha=self._alpha)

    def _think(self) -> float:
        return float(self._random.exponential(self._think_s))
