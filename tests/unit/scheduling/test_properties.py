"""What holds for every policy, on random workloads; ``tests/integration/simulation`` draws many more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.scheduling.policies.table import POLICIES
from deployments.scheduling.request import Request

from .checks import (
    Step,
    check_all_policies_are_done_at_the_same_time,
    check_every_request_ends_once_after_all_its_blocks_in_order,
    check_fifo_serves_in_arrival_order,
    check_nobody_waits_longer_than_the_starvation_bound_promises,
    check_the_device_is_never_shared_and_never_idle_while_somebody_waits,
    check_the_incremental_policy_chooses_what_its_stateless_meaning_says,
    check_with_admission_whoever_is_served_is_on_time,
    steps,
    workloads,
)


@given(requests=workloads())
def test_every_request_ends_once_after_all_its_blocks_in_order(requests: list[Request]) -> None:
    for policy in POLICIES:
        check_every_request_ends_once_after_all_its_blocks_in_order(policy, requests)


@given(requests=workloads())
def test_the_device_is_never_shared_and_never_idle_while_somebody_waits(requests: list[Request]) -> None:
    for policy in POLICIES:
        check_the_device_is_never_shared_and_never_idle_while_somebody_waits(policy, requests)


@given(requests=workloads())
def test_all_policies_are_done_at_the_same_time(requests: list[Request]) -> None:
    check_all_policies_are_done_at_the_same_time(requests)


@given(requests=workloads())
def test_fifo_serves_in_arrival_order(requests: list[Request]) -> None:
    check_fifo_serves_in_arrival_order(requests)


@given(requests=workloads(num_levels=1))
def test_with_admission_whoever_is_served_is_on_time(requests: list[Request]) -> None:
    check_with_admission_whoever_is_served_is_on_time(requests)


@given(
    requests=workloads(num_levels=1),
    bound=st.integers(1, 200),
    bound_ratio=st.sampled_from([None, 1.5, 8.0]),
    share=st.sampled_from([0.25, 0.5, 1.0]),
)
def test_nobody_waits_longer_than_the_starvation_bound_promises(
    requests: list[Request], bound: int, bound_ratio: float | None, share: float
) -> None:
    for policy in POLICIES:
        if policy != "fifo":
            check_nobody_waits_longer_than_the_starvation_bound_promises(policy, requests, bound, bound_ratio, share)


@pytest.mark.parametrize("policy", POLICIES)
@given(
    happenings=steps,
    bound=st.sampled_from([None, 2.0]),
    bound_ratio=st.sampled_from([None, 3.0]),
    across=st.booleans(),
)
def test_the_incremental_policy_chooses_what_its_stateless_meaning_says(
    policy: str, happenings: list[Step], bound: float | None, bound_ratio: float | None, across: bool
) -> None:
    check_the_incremental_policy_chooses_what_its_stateless_meaning_says(policy, happenings, bound, bound_ratio, across)
