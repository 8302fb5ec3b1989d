"""What a turn on a device costs: boundary, hand-over between processes, acquire, beside a Ray actor call.

    python -m benchmarks.lease            a table
    python -m benchmarks.lease --json     the same as one JSON object
    python -m benchmarks.lease --unpinned   device threads on any core

Real parts: an allocator process and two replica processes with the real device thread and socket protocol; only the
blocks are stand-ins (matrix products for ``--block-ms``, which release the interpreter lock as ONNX Runtime does). As
in the example configuration the device is core 0: all device threads run there, everything else on the other cores;
with ``--unpinned`` the system places all threads. All figures come from the slice log or from the replicas' own clocks,
in microseconds:

- boundary: from the end of a block to the start of the next one in an undisturbed turn,
- hand-over: the device is idle from the end of one replica's turn to the start of another's,
- acquire: from ``submit`` to the start of the first block on a free device,
- actor call: round trip of an empty method of a Ray actor, in the same run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import ray
from rich.console import Console
from rich.table import Table

from deployments.runtime.allocator_server import AllocatorServer
from deployments.runtime.block_times import BlockTimes
from deployments.runtime.device_thread import DeviceThread
from deployments.runtime.messages import Slice
from deployments.runtime.settings import SWITCH_INTERVAL_S, DeviceSettings
from deployments.scheduling.request import Request, RequestId

DEVICE_CORE = 0
_PROCESSES = multiprocessing.get_context("spawn")
Figures = dict[str, float]


class ProductChain:
    """Blocks that are matrix products for a time given; 0: they do nothing."""

    def __init__(self, num_blocks: int, block_s: float) -> None:
        self.num_blocks = num_blocks
        self._block_s = block_s
        self._matrix = np.ones((256, 256), np.float32)
        self._result = np.empty_like(self._matrix)

    def start(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """No values."""
        return dict(inputs)

    def run_block(self, _block: int, _values: dict[str, np.ndarray]) -> None:
        """Products until the time is over."""
        end_s = time.monotonic() + self._block_s if self._block_s else 0.0
        while end_s > time.monotonic():
            np.matmul(self._matrix, self._matrix, out=self._result)

    def finish(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """No values."""
        return values

    def close(self) -> None:
        """Nothing was loaded."""


def _settings(*, is_pinned: bool) -> DeviceSettings:
    return DeviceSettings(mode="fifo", max_waiting=100_000, cores=(DEVICE_CORE,) if is_pinned else None)


def _leave_device_core(settings: DeviceSettings) -> None:
    """Run this process on the other cores, as ``serve_app run`` does with all but the device threads."""
    if hasattr(os, "sched_setaffinity") and (others := os.sched_getaffinity(0) - set(settings.cores or ())):
        os.sched_setaffinity(0, others)


def _serve_allocator(folder: str, settings: DeviceSettings, pipe: Connection) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _leave_device_core(settings)
    server = AllocatorServer(settings=settings, folder=Path(folder))
    pipe.send(str(server.socket_path))
    while (asked := pipe.recv()) is not None:
        pipe.send(server.slices_since(asked))
    server.close()


def _serve_replica(name: str, socket_path: str, settings: DeviceSettings, pipe: Connection) -> None:
    """Runs orders ``(num_blocks, block_s, num_requests, one_by_one)``; answers with when each request was submitted."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _leave_device_core(settings)
    while (order := pipe.recv()) is not None:
        num_blocks, block_s, num_requests, one_by_one = order
        thread = DeviceThread(
            model=name,
            chain=ProductChain(num_blocks, block_s),
            block_times=BlockTimes((1e-3,) * num_blocks, 1e-3 * num_blocks),
            settings=settings,
            find_socket=lambda: Path(socket_path),
        )
        pipe.send("ready")
        pipe.recv()
        submitted_s = _run_requests(thread, name, num_blocks, num_requests, one_by_one=one_by_one)
        thread.close()
        pipe.send(submitted_s)


def _run_requests(
    thread: DeviceThread, name: str, num_blocks: int, num_requests: int, *, one_by_one: bool
) -> dict[str, float]:
    submitted_s: dict[str, float] = {}
    done = threading.Semaphore(0)
    for index in range(num_requests):
        now_s = time.monotonic()
        request = Request(
            request_id=RequestId(f"{thread.owner}-{index}"),
            model=name,
            owner=thread.owner,
            arrival_s=float(index),  # first come, first served then alternates between the replicas
            isolated_s=1e-3,
            block_times_s=(1e-3,) * num_blocks,
            deadline_s=1e9,
        )
        submitted_s[request.request_id] = now_s
        thread.submit(request, {}, lambda _result: done.release())
        if one_by_one:
            done.acquire()
            time.sleep(0.002)  # the device is free again, and everybody sleeps
    for _ in range(0 if one_by_one else num_requests):
        done.acquire()
    return submitted_s


class World:
    """The allocator process and two replica processes."""

    def __init__(self, settings: DeviceSettings) -> None:
        # a block of one replica leaves the other core free
        os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
        self._folder = tempfile.TemporaryDirectory(prefix="dlir-lease-")
        self._allocator, theirs = _PROCESSES.Pipe()
        self._processes = [_PROCESSES.Process(target=_serve_allocator, args=(self._folder.name, settings, theirs))]
        self._processes[0].start()
        socket_path = self._allocator.recv()
        self.replicas = []
        for name in ("first", "second"):
            mine, theirs = _PROCESSES.Pipe()
            self.replicas.append(mine)
            self._processes.append(
                _PROCESSES.Process(target=_serve_replica, args=(name, socket_path, settings, theirs))
            )
            self._processes[-1].start()
        self._num_seen = 0

    def run(self, replicas: Sequence[Any], *order: object) -> tuple[list[Slice], dict[str, float]]:
        """Let these replicas carry the order out at the same time; their turns and submission times."""
        for replica in replicas:
            replica.send(order)
        for replica in replicas:
            assert replica.recv() == "ready"
        for replica in replicas:
            replica.send("go")
        submitted_s: dict[str, float] = {}
        for replica in replicas:
            submitted_s |= replica.recv()
        self._allocator.send(self._num_seen)
        turns: list[Slice] = self._allocator.recv()
        self._num_seen += len(turns)
        return turns, submitted_s

    def close(self) -> None:
        """End all processes."""
        for pipe in (*self.replicas, self._allocator):
            pipe.send(None)
        for process in self._processes:
            process.join(10)
        self._folder.cleanup()


class _Empty:
    def call(self) -> None:
        """Nothing."""


def measure(*, rounds: int, block_ms: float, is_pinned: bool) -> Figures:
    """Interleaved rounds of all four measurements; medians and 99th percentiles over all rounds, microseconds."""
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    actor: Any = ray.remote(_Empty).remote()
    ray.get(actor.call.remote())
    world = World(_settings(is_pinned=is_pinned))
    block_s = block_ms / 1e3
    boundary, handover, acquire, call = [list[float]() for _ in range(4)]
    try:
        for _ in range(rounds):
            turns, _ = world.run(world.replicas[:1], 2000, 0.0, 1, True)
            boundary += [b - a for turn in turns for a, b in itertools.pairwise(turn.block_ends_s)]
            turns, _ = world.run(world.replicas, 1, block_s, 100, False)
            handover += _gaps(turns)
            turns, submitted_s = world.run(world.replicas[:1], 1, block_s, 50, True)
            acquire += [turn.start_s - submitted_s[turn.request_id] for turn in turns]
            for _ in range(100):
                began_s = time.perf_counter()
                ray.get(actor.call.remote())
                call.append(time.perf_counter() - began_s)
    finally:
        world.close()
        ray.shutdown()
    figures: Figures = {}
    for name, times_s in {"boundary": boundary, "handover": handover, "acquire": acquire, "actor_call": call}.items():
        figures[f"{name}_p50_us"] = round(statistics.median(times_s) * 1e6, 1)
        figures[f"{name}_p99_us"] = round(float(np.percentile(times_s, 99)) * 1e6, 1)
        figures[f"{name}_count"] = len(times_s)
    return figures


def _gaps(turns: list[Slice]) -> list[float]:
    """Idle times of the device where it goes from one replica to another."""
    ordered = sorted(turns, key=lambda turn: turn.start_s)
    return [b.start_s - a.end_s for a, b in itertools.pairwise(ordered) if a.model != b.model]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.lease", description="What a turn on a device costs.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=10, help="interleaved rounds (default 10)")
    parser.add_argument("--unpinned", action="store_true", help="let the system place the device threads")
    parser.add_argument("--block-ms", type=float, default=2.0, help="length of a stand-in block (default 2)")
    options = parser.parse_args()
    figures = measure(rounds=options.rounds, block_ms=options.block_ms, is_pinned=not options.unpinned)
    if options.json:
        print(json.dumps(figures))
        return
    table = Table(title="cost of a turn, microseconds")
    for column in ("what", "p50", "p99", "count"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for name in ("boundary", "handover", "acquire", "actor_call"):
        table.add_row(name, *(f"{figures[f'{name}_{key}']:.0f}" for key in ("p50_us", "p99_us", "count")))
    Console().print(table)


if __name__ == "__main__":
    main()
