"""Arrivals are fixed by the seed and ask for the load given."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.load.arrivals import poisson_arrivals

ISOLATED_S = {"small": 0.01, "large": 0.05}


def test_equal_seeds_give_equal_arrivals_and_other_seeds_others() -> None:
    first = poisson_arrivals(ISOLATED_S, load=0.8, duration_s=60, seed=1)
    assert first == poisson_arrivals(ISOLATED_S, load=0.8, duration_s=60, seed=1)
    assert first != poisson_arrivals(ISOLATED_S, load=0.8, duration_s=60, seed=2)


def test_arrivals_are_in_order_of_time_and_within_the_run() -> None:
    times = [arrival.at_s for arrival in poisson_arrivals(ISOLATED_S, load=0.8, duration_s=60, seed=1)]
    assert times == sorted(times)
    assert times[0] > 0
    assert times[-1] < 60


@pytest.mark.parametrize("load", [0.3, 1.1])
def test_the_work_asked_for_is_the_load_in_equal_shares_of_requests(load: float) -> None:
    arrivals = poisson_arrivals(ISOLATED_S, load=load, duration_s=1000, seed=3)
    counts = {model: sum(arrival.model == model for arrival in arrivals) for model in ISOLATED_S}
    expected = 1000 * load / sum(ISOLATED_S.values())
    assert counts == {"small": round(expected), "large": round(expected)}
    work_s = sum(ISOLATED_S[arrival.model] for arrival in arrivals)
    assert work_s / 1000 == pytest.approx(load, rel=1e-3)


def test_streams_of_different_models_differ() -> None:
    arrivals = poisson_arrivals({"a": 0.1, "b": 0.1}, load=1, duration_s=60, seed=1)
    times = {model: [arrival.at_s for arrival in arrivals if arrival.model == model] for model in "ab"}
    assert times["a"] != times["b"]


def test_even_a_short_run_has_a_request_of_every_model() -> None:
    assert len(poisson_arrivals(ISOLATED_S, load=0.1, duration_s=0.01, seed=1)) == 2


def test_gaps_vary_as_those_of_a_poisson_stream_do() -> None:
    arrivals = poisson_arrivals({"m": 0.1}, load=1, duration_s=1000, seed=4)
    gaps = [later.at_s - earlier.at_s for earlier, later in pairwise(arrivals)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert variance**0.5 == pytest.approx(mean, rel=0.08)


@pytest.mark.parametrize(("isolated_s", "load", "duration_s"), [({}, 1, 1), ({"m": 0.0}, 1, 1), ({"m": 1.0}, 0, 1)])
def test_senseless_values_are_refused(isolated_s: dict[str, float], load: float, duration_s: float) -> None:
    with pytest.raises(ValueError, match="at least one model and positive times"):
        poisson_arrivals(isolated_s, load=load, duration_s=duration_s, seed=0)
