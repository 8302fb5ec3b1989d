"""Response ratios and the offline optimum."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.policies.table import make_policy
from deployments.scheduling.request import Request, RequestId
from deployments.simulation.errors import TooManyRequestsError
from deployments.simulation.measures import ci95, measure, measure_ratios
from deployments.simulation.optimum import fewest_late
from deployments.simulation.simulator import simulate


def request(number: int, arrival: int, due: int, *blocks: int) -> Request:
    return Request(
        request_id=RequestId(str(number)),
        model="m",
        owner="m",
        arrival_s=float(arrival),
        isolated_s=float(sum(blocks)),
        block_times_s=tuple(map(float, blocks)),
        deadline_s=float(arrival + due),
    )


def test_a_refused_request_counts_as_late_and_not_for_the_jitter() -> None:
    measures = measure_ratios(np.array([1.0, 3.0, np.inf, 2.0]))
    assert measures.violation_pct == {2.0: 50.0, 3.0: 25.0, 4.0: 25.0}
    assert measures.refused_pct == 25.0
    assert measures.max == 3.0
    assert measures.jitter == pytest.approx(np.std([1.0, 3.0, 2.0]))


def test_a_run_is_measured_overall_and_per_model() -> None:
    requests = [request(0, 0, 4, 2), request(1, 0, 2, 2)]
    run = simulate(requests, DeviceAllocator(policy=make_policy("fifo")))
    measures = measure([run])
    assert measures.overall.mean == 1.5
    assert measures.by_model["m"] == measures.overall
    assert measures.device_use_pct == 100.0
    assert measures.goodput_per_s == 0.25
    assert measures.violation_ci95[2.0] == 0.0


def test_runs_that_differ_make_a_confidence_interval() -> None:
    runs = [
        simulate([request(0, 0, 9, 2), request(1, 0, 9, *blocks)], DeviceAllocator(policy=make_policy("fifo")))
        for blocks in ((1,), (4,))
    ]
    measures = measure(runs)
    assert measures.overall.violation_pct[2.0] == 25.0
    assert measures.violation_ci95[2.0] == pytest.approx(12.706 * 25.0)  # Student's t, one degree of freedom


def test_the_optimum_may_wait_for_an_urgent_request_that_is_still_to_come() -> None:
    patient, urgent = request(0, 0, 10, 4), request(1, 1, 2, 2)
    assert fewest_late([patient, urgent]) == 0
    assert fewest_late([request(0, 0, 5, 4), urgent]) == 1


def test_the_optimum_of_too_many_requests_is_refused() -> None:
    with pytest.raises(TooManyRequestsError):
        fewest_late([request(number, 0, 9, 1, 1, 1) for number in range(12)])


def _fewest_late_by_orders(requests: list[Request]) -> int:
    """For requests of one block: try every order of every on-time set."""
    for size in range(len(requests), 0, -1):
        for order in itertools.permutations(requests, size):
            now_s = 0.0
            for each in order:
                now_s = max(now_s, each.arrival_s) + each.block_times_s[0]
                if now_s > each.deadline_s:
                    break
            else:
                return len(requests) - size
    return len(requests)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=4))
def test_the_optimum_is_what_trying_all_orders_gives(fields: list[tuple[int, int, int]]) -> None:
    requests = [request(number, *each) for number, each in enumerate(fields)]
    assert fewest_late(requests) == _fewest_late_by_orders(requests)


@pytest.mark.parametrize(("num_values", "quantile"), [(2, 12.706), (5, 2.776), (20, 2.093), (31, 2.042), (40, 1.96)])
def test_a_confidence_interval_knows_how_few_values_there_are(num_values: int, quantile: float) -> None:
    values = list(range(num_values))
    assert ci95(values) == pytest.approx(quantile * np.std(values, ddof=1) / num_values**0.5)


def test_one_value_has_no_confidence_interval() -> None:
    assert ci95([3.0]) == 0.0
