"""Counters of a model."""

from __future__ import annotations

import contextlib

import msgspec
import pytest

from deployments.runtime.copies import Copies
from serve_app.statistics import ModelStatistics, RequestCounter, StatisticDuration


def told(counter: RequestCounter, device_s: float = 0.0, copies: Copies | None = None) -> ModelStatistics:
    return counter.statistics("m", "1", device_s=device_s, copies=copies or Copies())


def test_a_replica_that_has_answered_nothing_tells_zeros() -> None:
    statistics = told(RequestCounter())
    assert (statistics.name, statistics.version, statistics.last_inference) == ("m", "1", 0)
    assert statistics.inference_count == statistics.execution_count == 0
    assert all(each == {"count": 0, "ns": 0} for each in msgspec.to_builtins(statistics.inference_stats).values())


def test_answers_and_failures_are_counted_apart() -> None:
    counter = RequestCounter()
    for error in (None, ValueError, None, KeyboardInterrupt):
        with contextlib.suppress(ValueError, KeyboardInterrupt), counter.counting():
            if error is not None:
                raise error
    statistics = told(counter)
    assert statistics.inference_count == statistics.inference_stats.success.count == 2
    assert statistics.inference_stats.fail.count == 2
    assert statistics.inference_stats.success.ns > 0
    assert statistics.last_inference > 1_700_000_000_000


def test_an_error_goes_on_to_the_caller() -> None:
    with pytest.raises(ValueError, match="mine"), RequestCounter().counting():
        raise ValueError("mine")


def test_the_queue_is_what_the_device_did_not_take() -> None:
    counter = RequestCounter()
    with counter.counting():
        pass
    stats = told(counter, device_s=1e-9).inference_stats
    assert stats.compute_infer.ns == 1
    assert stats.queue.ns == stats.success.ns - 1
    assert told(counter, device_s=100.0).inference_stats.queue.ns == 0


def test_copies_are_told_apart_from_blocks_and_nothing_counts_twice() -> None:
    counter = RequestCounter()
    with counter.counting():
        pass
    copies = Copies(num_inputs=1, input_ns=30, input_bytes=64, num_outputs=1, output_ns=20, output_bytes=16)
    told_of = told(counter, device_s=100e-9, copies=copies)
    stats = told_of.inference_stats
    assert (told_of.input_bytes, told_of.output_bytes) == (64, 16)
    assert stats.compute_input == StatisticDuration(count=1, ns=30)
    assert stats.compute_infer == StatisticDuration(count=1, ns=70)  # inputs go within the first block's time
    assert stats.compute_output == StatisticDuration(count=1, ns=20)
    parts = (stats.queue, stats.compute_input, stats.compute_infer, stats.compute_output)
    assert sum(part.ns for part in parts) == stats.success.ns


def test_statistics_of_several_replicas_add_up() -> None:
    counters = [RequestCounter() for _ in range(3)]
    for number, counter in enumerate(counters):
        for _ in range(number + 1):
            with counter.counting():
                pass
    copies = Copies(input_bytes=8, output_bytes=4)
    first, *others = [counter.statistics("m", "1", device_s=0.5, copies=copies) for counter in counters]
    together = first.plus(others)
    assert (together.name, together.inference_count, together.execution_count) == ("m", 6, 6)
    assert (together.input_bytes, together.output_bytes) == (24, 12)
    assert together.inference_stats.success.count == 6
    assert together.inference_stats.compute_infer.ns == 1_500_000_000
    assert together.last_inference == max(each.last_inference for each in (first, *others))
