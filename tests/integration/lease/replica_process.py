"""A replica in a process of its own that can be killed, with blocks that note when they run."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from deployments.runtime.block_times import BlockTimes
from deployments.runtime.device_thread import DeviceThread
from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.request import Request, RequestId

BLOCK_S = 0.002


class NotingChain:
    """Appends one line per block to a file that all replicas share: process, begin, end; atomic, so kills lose none."""

    def __init__(self, num_blocks: int, notes: Path) -> None:
        self.num_blocks = num_blocks
        self._file = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def start(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(inputs)

    def run_block(self, _block: int, _values: dict[str, np.ndarray]) -> None:
        self._note("begin")
        time.sleep(BLOCK_S)
        self._note("end")

    def finish(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return values

    def close(self) -> None:
        pass

    def _note(self, event: str) -> None:
        os.write(self._file, f"{time.monotonic_ns()} {os.getpid()} {event}\n".encode())


def serve(pipe: Connection, socket_path: Path, settings: DeviceSettings, notes: Path, num_blocks: int) -> None:
    """Carry out ``("submit", id)`` and ``("cancel", id)``; tell ``(id, "answered" | error)``; end on None."""
    times_s = (BLOCK_S,) * num_blocks
    thread = DeviceThread(
        model=f"m{num_blocks}",
        chain=NotingChain(num_blocks, notes),
        block_times=BlockTimes(times_s, sum(times_s)),
        settings=settings,
        find_socket=lambda: socket_path,
    )
    pipe.send("ready")
    while (order := pipe.recv()) is not None:
        verb, name = order
        if verb == "cancel":
            thread.cancel(RequestId(name))
            continue
        now_s = time.monotonic()
        request = Request(
            request_id=RequestId(name),
            model=f"m{num_blocks}",
            owner=thread.owner,
            arrival_s=now_s,
            isolated_s=sum(times_s),
            block_times_s=times_s,
            deadline_s=now_s + 4 * sum(times_s),
        )

        def tell(result: object, name: str = name) -> None:
            pipe.send((name, repr(result) if isinstance(result, Exception) else "answered"))

        thread.submit(request, {}, tell)
    thread.close()
    pipe.send("closed")
