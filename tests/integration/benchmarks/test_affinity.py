"""Who may use the device's cores, asked of a real child process with threads of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.serve.affinity import borrowed_cores, move_threads

CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="needs two cores and Linux")

PROGRAM = """
import os, sys, threading
def run_pinned():
    os.sched_setaffinity(0, {DEVICE})
    print(threading.get_native_id(), flush=True)
    threading.Event().wait()
threading.Thread(target=run_pinned, daemon=True).start()
sys.stdin.read()
"""


def test_only_what_has_pinned_itself_keeps_the_devices_cores() -> None:
    device, *others = sorted(CORES)
    command = [sys.executable, "-c", PROGRAM.replace("DEVICE", str(device))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        pinned = int(child.stdout.readline())
        with borrowed_cores([device], others):
            move_threads(CORES, stay=[device])
            assert os.sched_getaffinity(child.pid) == CORES
        assert os.sched_getaffinity(child.pid) == set(others)
        assert os.sched_getaffinity(pinned) == {device}
        child.communicate()
