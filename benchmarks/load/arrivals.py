"""When requests arrive, fixed before the first one is sent: seeded streams, or a recording stretched to the load."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.load.errors import TraceModelUnknownError
from deployments.simulation.arrivals import ArrivalShape
from deployments.simulation.traces import Trace
from deployments.simulation.workload import Arrival

POISSON = ArrivalShape()
# What the models of the known recordings are called in the built-in zoo, or what is nearest in size there.
ZOO_NAMES: Mapping[str, str] = {
    "squeezenetv1": "squeezenet",
    "googlenet": "inception_v1",
    "yolov2": "shufflenet",
    "distilbert": "squeezenet",
    "densenet201-imagenet": "shufflenet",
    "inceptionv3-imagenet": "inception_v1",
    "resnet152-imagenet": "resnet50",
    "vgg19-imagenet": "vgg19",
}


def synthetic_arrivals(
    isolated_s: Mapping[str, float], *, load: float, duration_s: float, seed: int, shape: ArrivalShape = POISSON
) -> tuple[Arrival, ...]:
    """Arrivals of all models in order of time; every model has the same number of requests.

    Each model is a stream of its own with the mean gap ``sum(isolated_s) / load``, so that all of them together ask
    for the share ``load`` of the device's time. Each stream is stretched to have exactly the expected number of
    arrivals; given its number, the times of a Poisson stream are uniform and independent, so it stays one. With the
    number left to chance, a minute would as often as not be 10 % off the load that it is meant to show.

    Args:
        isolated_s: Isolated time of each model, in seconds.
        load: Share of the device's time asked for; above 1 is overload.
        duration_s: Length of the run.
        seed: Equal seeds give equal arrivals.
        shape: How the gaps are distributed.

    Raises:
        ValueError: If there is no model, or a time, the load or the duration is not positive.
    """
    _check(isolated_s, load, duration_s)
    num_per_model = max(1, round(duration_s * load / sum(isolated_s.values())))
    arrivals: list[Arrival] = []
    for model in isolated_s:
        rng = np.random.default_rng([seed, *model.encode()])
        ends = np.cumsum(shape.gaps_s(rng, 1.0, num_per_model + 1))
        arrivals += (Arrival(arrival_s=float(at), model=model) for at in ends[:num_per_model] * (duration_s / ends[-1]))
    return _in_order(arrivals)


def recorded_arrivals(
    trace: Trace,
    isolated_s: Mapping[str, float],
    *,
    load: float,
    duration_s: float,
    start_s: float,
    names: Mapping[str, str] = ZOO_NAMES,
) -> tuple[Arrival, ...]:
    """A part of a recording, its time stretched so that the whole asks for the share ``load`` of the device's time.

    Args:
        trace: The recording; after its end it begins again.
        isolated_s: Isolated time of each model here, in seconds.
        load: Share of the device's time asked for, over the whole recording.
        duration_s: Length of the part.
        start_s: Where the part begins, in stretched time.
        names: What a model of the recording is called here; the same name where it is not in there.

    Raises:
        TraceModelUnknownError: If the recording has a model that is not here.
        ValueError: As ``synthetic_arrivals``.
    """
    _check(isolated_s, load, duration_s)
    models = [names.get(arrival.model, arrival.model) for arrival in trace.arrivals]
    if unknown := sorted(set(models) - set(isolated_s)):
        raise TraceModelUnknownError(
            f"{trace.name}: no model here is called {', '.join(unknown)}: say which of {', '.join(isolated_s)} stands "
            "for it with --map NAME=MODEL"
        )
    span_s = sum(isolated_s[model] for model in models) / load
    first_s = trace.arrivals[0].arrival_s
    recorded_s = trace.arrivals[-1].arrival_s - first_s
    # a mean gap after the last one, so that the recording can begin again
    stretch = span_s / (recorded_s * len(models) / max(1, len(models) - 1)) if recorded_s else 0.0
    arrivals: list[Arrival] = []
    offset_s = -(start_s % span_s)
    while offset_s < duration_s:
        for arrival, model in zip(trace.arrivals, models, strict=True):
            at_s = (arrival.arrival_s - first_s) * stretch + offset_s
            if 0 <= at_s < duration_s:
                arrivals.append(Arrival(arrival_s=at_s, model=model))
        offset_s += span_s
    return _in_order(arrivals)


def _check(isolated_s: Mapping[str, float], load: float, duration_s: float) -> None:
    if not isolated_s or min(isolated_s.values()) <= 0 or load <= 0 or duration_s <= 0:
        raise ValueError(
            f"arrivals need at least one model and positive times, got isolated_s={dict(isolated_s)}, "
            f"load={load}, duration_s={duration_s}"
        )


def _in_order(arrivals: list[Arrival]) -> tuple[Arrival, ...]:
    return tuple(sorted(arrivals, key=lambda arrival: (arrival.arrival_s, arrival.model)))
