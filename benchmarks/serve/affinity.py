"""Cores of the servers that are measured: all of them while a server starts, then the device's for inference only.

A server's inference threads pin themselves to the device's cores. All else is kept off them from outside, so that it
holds for every competitor alike; while a server starts, nothing is measured and two cores load it in half the time.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Iterator

import psutil

_PERIOD_S = 0.5
_MAX_PASSES = 20


@contextlib.contextmanager
def borrowed_cores(device_cores: Collection[int], other_cores: Collection[int]) -> Iterator[None]:
    """Inside, what this process has started may use all cores; after it, only threads pinned to the device's may.

    Args:
        device_cores: Of the device; empty: nothing is pinned, and nothing is done.
        other_cores: All others that may be used.
    """
    if not device_cores or not hasattr(os, "sched_setaffinity"):
        yield
        return
    is_over = threading.Event()

    def lend() -> None:
        while not is_over.wait(_PERIOD_S):
            move_threads({*device_cores, *other_cores}, stay=device_cores)

    lender = threading.Thread(target=lend, name="borrowed-cores", daemon=True)
    lender.start()
    try:
        yield
    finally:
        is_over.set()
        lender.join()
        for _ in range(_MAX_PASSES):  # what is started meanwhile has the cores of its parent
            if not move_threads(other_cores, stay=device_cores):
                break


def move_threads(cores: Collection[int], *, stay: Collection[int]) -> int:
    """Let all threads of this process's children use ``cores``, but for those that are pinned to ``stay``.

    Returns:
        How many were moved.
    """
    num_moved = 0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            for thread in process.threads():
                with contextlib.suppress(OSError):  # it has just ended
                    if os.sched_getaffinity(thread.id) not in (set(stay), set(cores)):
                        os.sched_setaffinity(thread.id, cores)
                        num_moved += 1
    return num_moved
