"""Counts of what goes to a device and comes back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deployments.runtime.copies import Copies

requests = st.lists(st.tuples(st.lists(st.integers(0, 50), max_size=4), st.integers(0, 10**9)), max_size=10)


def counted(inputs: list[tuple[list[int], int]], outputs: list[tuple[list[int], int]]) -> Copies:
    copies = Copies()
    for sizes, ns in inputs:
        copies.add_inputs([np.zeros(size, np.float32) for size in sizes], ns)
    for sizes, ns in outputs:
        copies.add_outputs([np.zeros(size, np.float32) for size in sizes], ns)
    return copies


@given(requests, requests)
def test_every_request_counts_once_with_the_bytes_of_all_its_arrays(
    inputs: list[tuple[list[int], int]], outputs: list[tuple[list[int], int]]
) -> None:
    assert counted(inputs, outputs) == Copies(
        num_inputs=len(inputs),
        input_ns=sum(ns for _, ns in inputs),
        input_bytes=sum(4 * size for sizes, _ in inputs for size in sizes),
        num_outputs=len(outputs),
        output_ns=sum(ns for _, ns in outputs),
        output_bytes=sum(4 * size for sizes, _ in outputs for size in sizes),
    )


@given(requests, requests, requests)
def test_sums_and_differences_are_those_of_the_parts(
    before: list[tuple[list[int], int]], inputs: list[tuple[list[int], int]], outputs: list[tuple[list[int], int]]
) -> None:
    first, second = counted(before, before), counted(inputs, outputs)
    assert first + second == counted(before + inputs, before + outputs)
    assert first + second - first == second
