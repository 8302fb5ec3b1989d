"""A device with its real allocator server, and replicas whose blocks run when the test says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from deployments.runtime.allocator_server import AllocatorServer
from deployments.runtime.block_times import BlockTimes
from deployments.runtime.device_thread import DeviceThread
from deployments.runtime.messages import Slice, Welcome
from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.request import Request, RequestId
from tests.raw_replica import RawReplica

LIMIT_S = 10.0


class SteppedChain:
    """Blocks that wait for the test: each ``allow`` lets one block end."""

    def __init__(self, num_blocks: int, *, fails_in_block: int | None = None) -> None:
        self.num_blocks = num_blocks
        self._fails_in_block = fails_in_block
        self._allowed = threading.Semaphore(0)
        self._began = threading.Semaphore(0)

    def start(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(inputs)

    def run_block(self, block: int, values: dict[str, np.ndarray]) -> None:
        self._began.release()
        assert self._allowed.acquire(timeout=LIMIT_S)
        if block == self._fails_in_block:
            raise RuntimeError("no kernel image")
        values["ran"] = np.append(values.get("ran", np.zeros(0, int)), block)

    def finish(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return values

    def close(self) -> None:
        pass

    def wait_for_block(self) -> None:
        """Return once a block has begun that no earlier call has returned for."""
        assert self._began.acquire(timeout=LIMIT_S)

    def allow(self, num_blocks: int = 1) -> None:
        """Let the next blocks end."""
        self._allowed.release(num_blocks)


class Replica:
    """A device thread with a stepped model; requests have isolated time ``num_blocks`` seconds."""

    def __init__(
        self, world: LeaseWorld, model: str, chain: SteppedChain, memory_bytes: int, *, first_block: int = 0
    ) -> None:
        self.chain = chain
        self._num_blocks = chain.num_blocks
        times_s = (1.0,) * (first_block + chain.num_blocks)
        self.thread = DeviceThread(
            model=model,
            load=lambda: chain,
            memory_bytes=memory_bytes,
            block_times=BlockTimes(times_s, float(chain.num_blocks)),
            settings=world.settings,
            find_socket=world.find_socket,
        )
        self._model = model

    def submit(self, name: str) -> Future[dict[str, np.ndarray]]:
        """Queue a request under this name."""
        answer: Future[dict[str, np.ndarray]] = Future()

        def on_result(result: dict[str, np.ndarray] | Exception) -> None:
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        request = Request(
            request_id=RequestId(name),
            model=self._model,
            owner=self.thread.owner,
            arrival_s=time.monotonic(),
            isolated_s=float(self._num_blocks),
            block_times_s=(1.0,) * self._num_blocks,
            deadline_s=1e9,
        )
        self.thread.submit(request, {}, on_result)
        return answer


class LeaseWorld:
    """One device; closes everything at the end of the test."""

    def __init__(self, folder: Path, settings: DeviceSettings) -> None:
        self.settings = settings
        self.folder = folder
        self.server = AllocatorServer(settings=settings, folder=folder)
        self._replicas: list[Replica] = []

    def find_socket(self) -> Path:
        """Where the allocator of the moment listens."""
        return self.server.socket_path

    def replica(
        self,
        model: str,
        num_blocks: int,
        *,
        fails_in_block: int | None = None,
        memory_bytes: int = 0,
        first_block: int = 0,
    ) -> Replica:
        """A new replica that is welcome; with ``first_block`` it has later blocks of a longer model."""
        chain = SteppedChain(num_blocks, fails_in_block=fails_in_block)
        replica = Replica(self, model, chain, memory_bytes, first_block=first_block)
        self._replicas.append(replica)
        return replica

    def raw_replica(self, name: str) -> RawReplica:
        """A new replica that is welcome, and that a test plays itself."""
        replica = RawReplica(self.find_socket(), self.settings, name)
        assert isinstance(replica.receive(), Welcome)
        return replica

    def restart_allocator(self) -> None:
        """As if the allocator had died and another process had started it again."""
        self.server.close()
        self.restart_allocator_that_is_closed()

    def restart_allocator_that_is_closed(self) -> None:
        """Start the allocator again."""
        self.server = AllocatorServer(settings=self.settings, folder=self.folder)

    def snapshot(self) -> dict[str, Any]:
        """Who holds the device and who waits, as the server tells it."""
        snapshot = self.server.status()["snapshot"]
        assert isinstance(snapshot, dict)
        return snapshot

    def num_waiting(self) -> int:
        """How many wait."""
        return len(self.snapshot()["waiting"])

    def slices(self) -> list[Slice]:
        """All recorded turns."""
        return self.server.slices_since(0)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once the condition holds; fail after the time limit."""
        waited = threading.Event()
        for _ in range(int(LIMIT_S / 0.002)):
            if condition():
                return
            waited.wait(0.002)
        raise AssertionError("the condition did not come true in time")

    def close(self) -> None:
        """End all threads; blocks still waiting for the test are let go."""
        for replica in self._replicas:
            replica.chain.allow(1000)
            replica.thread.close()
        self.server.close()
