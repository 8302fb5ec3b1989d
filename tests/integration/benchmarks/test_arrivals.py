"""Arrivals are fixed by the seed and ask for the load given."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.load.arrivals import recorded_arrivals, synthetic_arrivals
from benchmarks.load.errors import TraceModelUnknownError
from deployments.simulation.arrivals import SHAPES, ArrivalShape, Shape
from deployments.simulation.traces import Trace
from deployments.simulation.workload import Arrival

ISOLATED_S = {"small": 0.01, "large": 0.05}


def test_equal_seeds_give_equal_arrivals_and_other_seeds_others() -> None:
    first = synthetic_arrivals(ISOLATED_S, load=0.8, duration_s=60, seed=1)
    assert first == synthetic_arrivals(ISOLATED_S, load=0.8, duration_s=60, seed=1)
    assert first != synthetic_arrivals(ISOLATED_S, load=0.8, duration_s=60, seed=2)


def test_arrivals_are_in_order_of_time_and_within_the_run() -> None:
    times = [arrival.arrival_s for arrival in synthetic_arrivals(ISOLATED_S, load=0.8, duration_s=60, seed=1)]
    assert times == sorted(times)
    assert times[0] > 0
    assert times[-1] < 60


@pytest.mark.parametrize("load", [0.3, 1.1])
def test_the_work_asked_for_is_the_load_in_equal_shares_of_requests(load: float) -> None:
    arrivals = synthetic_arrivals(ISOLATED_S, load=load, duration_s=1000, seed=3)
    counts = {model: sum(arrival.model == model for arrival in arrivals) for model in ISOLATED_S}
    expected = 1000 * load / sum(ISOLATED_S.values())
    assert counts == {"small": round(expected), "large": round(expected)}
    work_s = sum(ISOLATED_S[arrival.model] for arrival in arrivals)
    assert work_s / 1000 == pytest.approx(load, rel=1e-3)


def test_streams_of_different_models_differ() -> None:
    arrivals = synthetic_arrivals({"a": 0.1, "b": 0.1}, load=1, duration_s=60, seed=1)
    times = {model: [arrival.arrival_s for arrival in arrivals if arrival.model == model] for model in "ab"}
    assert times["a"] != times["b"]


def test_even_a_short_run_has_a_request_of_every_model() -> None:
    assert len(synthetic_arrivals(ISOLATED_S, load=0.1, duration_s=0.01, seed=1)) == 2


def test_gaps_vary_as_those_of_a_poisson_stream_do() -> None:
    arrivals = synthetic_arrivals({"m": 0.1}, load=1, duration_s=1000, seed=4)
    gaps = [later.arrival_s - earlier.arrival_s for earlier, later in pairwise(arrivals)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert variance**0.5 == pytest.approx(mean, rel=0.08)


@pytest.mark.parametrize(("isolated_s", "load", "duration_s"), [({}, 1, 1), ({"m": 0.0}, 1, 1), ({"m": 1.0}, 0, 1)])
def test_senseless_values_are_refused(isolated_s: dict[str, float], load: float, duration_s: float) -> None:
    with pytest.raises(ValueError, match="at least one model and positive times"):
        synthetic_arrivals(isolated_s, load=load, duration_s=duration_s, seed=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_asks_for_the_same_work(shape: Shape) -> None:
    arrivals = synthetic_arrivals(ISOLATED_S, load=0.8, duration_s=100, seed=1, shape=ArrivalShape(shape=shape))
    assert sum(ISOLATED_S[arrival.model] for arrival in arrivals) == pytest.approx(80, rel=0.01)
    assert 0 < arrivals[0].arrival_s <= arrivals[-1].arrival_s < 100


TRACE = Trace(
    name="recorded",
    arrivals=tuple(
        Arrival(arrival_s=at_s, model=model) for at_s, model in ((10, "yolov2"), (11, "vgg19"), (13, "yolov2"))
    ),
    isolated_s={},
)
HERE_S = {"shufflenet": 0.1, "vgg19": 0.6}


def test_a_recording_is_stretched_to_the_load_and_its_models_are_renamed() -> None:
    # 0.8 s of work at load 0.5 are 1.6 s; the three gaps, with a mean one at the end, are 1, 2 and 1.5
    arrivals = recorded_arrivals(TRACE, HERE_S, load=0.5, duration_s=1.5, start_s=0)
    assert [arrival.model for arrival in arrivals] == ["shufflenet", "vgg19", "shufflenet"]
    assert [arrival.arrival_s for arrival in arrivals] == pytest.approx([0, 1.6 / 4.5, 1.6 * 3 / 4.5])


def test_a_later_part_of_a_recording_goes_on_where_the_first_ended_and_begins_again_at_its_end() -> None:
    first = recorded_arrivals(TRACE, HERE_S, load=0.5, duration_s=4, start_s=0)
    later = recorded_arrivals(TRACE, HERE_S, load=0.5, duration_s=3, start_s=1)
    assert [(each.arrival_s + 1, each.model) for each in later] == [
        (pytest.approx(each.arrival_s), each.model) for each in first if each.arrival_s >= 1
    ]
    assert len(first) == 8


def test_a_recorded_model_that_is_not_here_is_named() -> None:
    with pytest.raises(TraceModelUnknownError, match=r"called vgg19.*--map"):
        recorded_arrivals(TRACE, {"shufflenet": 0.1}, load=0.5, duration_s=1, start_s=0)
    renamed = recorded_arrivals(
        TRACE, {"small": 0.1}, load=0.5, duration_s=1, start_s=0, names={"yolov2": "small", "vgg19": "small"}
    )
    assert {arrival.model for arrival in renamed} == {"small"}
