"""Predicted block times follow what is measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.runtime.block_times import BlockTimes

times = st.floats(1e-4, 1.0)


@given(planned=st.lists(times, min_size=1, max_size=5), measured_s=times)
def test_they_converge_to_a_constant_measurement(planned: list[float], measured_s: float) -> None:
    block_times = BlockTimes(tuple(planned), sum(planned))
    for _ in range(300):
        for block in range(len(planned)):
            block_times.observe(block, measured_s)
    assert block_times.times_s == pytest.approx((measured_s,) * len(planned), rel=1e-3)
    assert block_times.isolated_s == pytest.approx(sum(block_times.times_s))


@given(time_s=times, outlier_s=st.floats(1.0, 1e6))
def test_one_outlier_moves_the_average_by_a_fifth_at_most(time_s: float, outlier_s: float) -> None:
    block_times = BlockTimes((time_s,), time_s)
    for _ in range(3):
        block_times.observe(0, time_s)
    block_times.observe(0, outlier_s)
    assert time_s <= block_times.times_s[0] * (1 + 1e-9)
    assert block_times.times_s[0] <= 1.2 * time_s * (1 + 1e-9)


def test_the_isolated_time_keeps_its_ratio_to_the_blocks() -> None:
    block_times = BlockTimes((0.01, 0.03), planned_isolated_s=0.036)
    assert block_times.isolated_s == pytest.approx(0.036)
    for _ in range(300):
        block_times.observe(0, 0.02)
        block_times.observe(1, 0.06)
    assert block_times.isolated_s == pytest.approx(0.072, rel=1e-3)
