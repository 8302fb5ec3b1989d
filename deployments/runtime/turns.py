"""Turns on a device for work that answers no request: measuring, loading. The allocator sees them as requests."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from uuid import uuid4

import numpy as np

from deployments.runtime.block_times import BlockTimes
from deployments.runtime.device_thread import DeviceThread
from deployments.runtime.jobs import Result
from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.errors import SchedulingError
from deployments.scheduling.request import Request, RequestId

LOWEST_PRIORITY = 1_000_000
_FIRST_GUESS_S = 0.01
_DEADLINE_S = 3600.0
_RETRY_S = 1.0


class _Gate:
    """Stands for a model of one block that runs for as long as somebody is inside."""

    num_blocks = 1

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.has_ended = threading.Event()

    def start(self, _inputs: Mapping[str, np.ndarray]) -> None:
        """There is nothing to bring."""

    def run_block(self, _block: int, _values: None) -> None:
        """Let the one in who waits, and wait until it leaves."""
        self.has_begun.set()
        self.has_ended.wait()

    def finish(self, _values: None) -> dict[str, np.ndarray]:
        """There is nothing to give."""
        return {}

    def close(self) -> None:
        """Nothing was loaded."""


class TurnTaker:
    """Takes turns for one thread; a context manager that leaves the device at the end."""

    def __init__(
        self,
        name: str,
        settings: DeviceSettings,
        find_socket: Callable[[], Path],
        *,
        priority: int = LOWEST_PRIORITY,
        memory_bytes: int = 0,
    ) -> None:
        """Join the device's allocator.

        Args:
            name: Who takes the turns, for people.
            settings: The device's, as all its models state them.
            find_socket: See ``DeviceThread``.
            priority: Of the turns; by default they wait behind all requests where the policy knows priorities.
            memory_bytes: Device memory that the work takes.

        Raises:
            SettingsConflictError, MemoryBudgetError, AllocatorUnreachableError, ProtocolMismatchError: See
                ``DeviceThread``.
        """
        self._name = name
        self._settings = settings
        self._priority = priority
        self._gate = _Gate()
        self._times = BlockTimes((_FIRST_GUESS_S,), _FIRST_GUESS_S)
        self._thread = DeviceThread(
            model=name,
            load=lambda: self._gate,
            memory_bytes=memory_bytes,
            block_times=self._times,
            settings=settings,
            find_socket=find_socket,
        )

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The device is the caller's inside of the block, exclusively where the mode is, on the device's own cores.

        Raises:
            RuntimeServingError: If the device goes away.
        """
        end = self._begin()
        cores = self._settings.cores
        before = os.sched_getaffinity(0) if cores is not None and hasattr(os, "sched_setaffinity") else None
        if before is not None:
            os.sched_setaffinity(0, cores or before)
        try:
            yield
        finally:
            if before is not None:
                os.sched_setaffinity(0, before)
            end()

    def close(self) -> None:
        """Leave the device."""
        self._gate.has_ended.set()
        self._thread.close()

    def __enter__(self) -> TurnTaker:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _begin(self) -> Callable[[], None]:
        """Wait for the turn; gives what ends it."""
        while True:
            results: list[Result] = []
            is_answered = threading.Event()
            self._gate.has_begun.clear()
            self._gate.has_ended.clear()

            def on_result(
                result: Result, results: list[Result] = results, is_answered: threading.Event = is_answered
            ) -> None:
                results.append(result)
                is_answered.set()
                self._gate.has_begun.set()

            self._thread.submit(self._request(), {}, on_result)
            self._gate.has_begun.wait()
            if not results:
                break
            if not isinstance(results[0], SchedulingError):
                raise cast(Exception, results[0])
            time.sleep(_RETRY_S)  # the queue is full

        def end() -> None:
            self._gate.has_ended.set()
            is_answered.wait()

        return end

    def _request(self) -> Request:
        now_s = time.monotonic()
        return Request(
            request_id=RequestId(uuid4().hex),
            model=self._name,
            owner=self._thread.owner,
            arrival_s=now_s,
            isolated_s=self._times.isolated_s,
            block_times_s=self._times.times_s,
            deadline_s=now_s + _DEADLINE_S,
            priority=self._priority,
        )
