"""When requests arrive: Poisson streams, one per model, fixed before the first request is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request to be sent.

    Attributes:
        at_s: Seconds after the start of the run.
        model: Which model it is for.
    """

    at_s: float
    model: str


def poisson_arrivals(
    isolated_s: Mapping[str, float], *, load: float, duration_s: float, seed: int
) -> tuple[Arrival, ...]:
    """Arrivals of all models in order of time; every model has the same number of requests.

    Each model is a Poisson stream with mean gap ``sum(isolated_s) / load``, so that all of them together ask for
    the share ``load`` of the device's time. Each stream has exactly the expected number of arrivals: given its
    number, the times of a Poisson stream are uniform and independent. With the number left to chance, a minute
    with 50 requests per model would as often as not be 10 % off the load that it is meant to show.

    Args:
        isolated_s: Isolated time of each model, in seconds.
        load: Share of the device's time asked for; above 1 is overload.
        duration_s: Length of the run.
        seed: Equal seeds give equal arrivals.

    Raises:
        ValueError: If there is no model, or a time, the load or the duration is not positive.
    """
    if not isolated_s or min(isolated_s.values()) <= 0 or load <= 0 or duration_s <= 0:
        raise ValueError(
            f"arrivals need at least one model and positive times, got isolated_s={dict(isolated_s)}, "
            f"load={load}, duration_s={duration_s}"
        )
    num_per_model = max(1, round(duration_s * load / sum(isolated_s.values())))
    arrivals: list[Arrival] = []
    for model in isolated_s:
        rng = np.random.default_rng([seed, *model.encode()])
        times_s = rng.uniform(0, duration_s, size=num_per_model)
        arrivals += (Arrival(at_s=float(at_s), model=model) for at_s in times_s)
    return tuple(sorted(arrivals, key=lambda arrival: (arrival.at_s, arrival.model)))
