"""Counters of one model's replica, as the statistics extension of the Open Inference Protocol tells them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from deployments.runtime.copies import Copies


class StatisticDuration(msgspec.Struct, frozen=True, kw_only=True):
    """How often something happened, and how long it took in all, in nanoseconds."""

    count: int
    ns: int

    def __add__(self, other: StatisticDuration) -> StatisticDuration:
        return StatisticDuration(count=self.count + other.count, ns=self.ns + other.ns)


class InferStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of a replica's requests went.

    Attributes:
        success: Requests answered with outputs; from the moment their inputs were checked.
        fail: Requests that ended otherwise: refused by the allocator, given up, cancelled, failed.
        queue: What the requests spent neither decoding nor running: waiting for the device.
        compute_input: Inputs to the device.
        compute_infer: Blocks on the device, those of requests given up included.
        compute_output: Outputs from the device. ONNX Runtime copies them from a GPU at the end of the last block, so
            there this time is in ``compute_infer``.
    """

    success: StatisticDuration
    fail: StatisticDuration
    queue: StatisticDuration
    compute_input: StatisticDuration
    compute_infer: StatisticDuration
    compute_output: StatisticDuration


class ModelStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of ``model_stats``.

    Attributes:
        name: Name of the model.
        version: The version served.
        last_inference: When the last request was answered, milliseconds since 1970; 0 for never.
        inference_count: Requests answered with outputs.
        execution_count: The same: requests are not batched.
        input_bytes: Size of the inputs that went to the device. Over HTTP only, as Triton has no such field.
        output_bytes: Size of the outputs that came back; the same.
        inference_stats: Durations.
    """

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    input_bytes: int
    output_bytes: int
    inference_stats: InferStatistics

    def plus(self, others: Iterable[ModelStatistics]) -> ModelStatistics:
        """All of them taken together, under this one's name and version."""
        every = [self, *others]
        nothing = StatisticDuration(count=0, ns=0)
        durations = {
            name: sum((getattr(each.inference_stats, name) for each in every), nothing)
            for name in InferStatistics.__struct_fields__
        }
        return msgspec.structs.replace(
            self,
            last_inference=max(each.last_inference for each in every),
            inference_count=sum(each.inference_count for each in every),
            execution_count=sum(each.execution_count for each in every),
            input_bytes=sum(each.input_bytes for each in every),
            output_bytes=sum(each.output_bytes for each in every),
            inference_stats=InferStatistics(**durations),
        )


class StatisticsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to ``GET /v2/models/MODEL/stats``."""

    model_stats: tuple[ModelStatistics, ...]


class RequestCounter:
    """Counts the requests of one replica; used by its event loop alone."""

    def __init__(self) -> None:
        self._num_success = self._success_ns = 0
        self._num_fail = self._fail_ns = 0
        self._last_inference_ms = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count one request: a failure if the block raises, cancellation included."""
        start_ns = time.monotonic_ns()
        try:
            yield
        except BaseException:
            self._num_fail += 1
            self._fail_ns += time.monotonic_ns() - start_ns
            raise
        self._num_success += 1
        self._success_ns += time.monotonic_ns() - start_ns
        self._last_inference_ms = time.time_ns() // 1_000_000

    def statistics(self, name: str, version: str, *, device_s: float, copies: Copies) -> ModelStatistics:
        """The counters now.

        Args:
            name: Name of the model.
            version: The version served.
            device_s: Time that the replica's blocks have run for requests, in seconds; inputs to the device included.
            copies: Inputs and outputs of these requests.
        """
        device_ns = round(device_s * 1e9)
        num_requests = self._num_success + self._num_fail
        waited_ns = max(0, self._success_ns + self._fail_ns - device_ns - copies.output_ns)
        return ModelStatistics(
            name=name,
            version=version,
            last_inference=self._last_inference_ms,
            inference_count=self._num_success,
            execution_count=self._num_success,
            input_bytes=copies.input_bytes,
            output_bytes=copies.output_bytes,
            inference_stats=InferStatistics(
                success=StatisticDuration(count=self._num_success, ns=self._success_ns),
                fail=StatisticDuration(count=self._num_fail, ns=self._fail_ns),
                queue=StatisticDuration(count=num_requests, ns=waited_ns),
                compute_input=StatisticDuration(count=copies.num_inputs, ns=copies.input_ns),
                compute_infer=StatisticDuration(count=num_requests, ns=max(0, device_ns - copies.input_ns)),
                compute_output=StatisticDuration(count=copies.num_outputs, ns=copies.output_ns),
            ),
        )
