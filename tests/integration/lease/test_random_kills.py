"""Random submissions, cancellations, killed replicas and restarted allocators over the real protocol.

Whatever happens: never two holders, and every request of a replica that lives, and that was not cancelled, is
answered exactly once.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from deployments.runtime.allocator_server import SOCKET_FILE, AllocatorServer
from deployments.runtime.settings import DeviceSettings
from tests.integration.lease.replica_process import serve

SETTINGS = DeviceSettings(mode="slo", max_waiting=100_000)
NUM_BLOCKS = (1, 4, 12)
NUM_STEPS = 400
LIMIT_S = 30.0


class ReplicaProcess:
    """One replica, and what the test expects of it."""

    def __init__(self, folder: Path, notes: Path, num_blocks: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, folder / SOCKET_FILE, SETTINGS, notes, num_blocks), daemon=True
        )
        self.process.start()
        self.num_blocks = num_blocks
        self.submitted: list[str] = []
        self.cancelled: set[str] = set()
        self.answers: Counter[str] = Counter()

    def wait_until_ready(self) -> None:
        assert self.pipe.poll(LIMIT_S)
        assert self.pipe.recv() == "ready"

    def take_answers(self) -> None:
        while self.pipe.poll():
            message: Any = self.pipe.recv()
            if message == "closed":
                return
            name, outcome = message
            assert outcome == "answered"
            self.answers[name] += 1

    def is_done(self) -> bool:
        self.take_answers()
        return all(self.answers[name] for name in self.submitted if name not in self.cancelled)


def assert_never_two_holders(notes: Path, killed_ns: dict[int, int]) -> None:
    """A block that has begun ends, at the latest when its process was killed, before another process begins one."""
    running: tuple[int, int] | None = None
    for line in sorted(notes.read_text().splitlines(), key=lambda line: int(line.split()[0])):
        when, pid, event = line.split()
        if event == "begin":
            if running is not None and running[1] != int(pid):
                assert running[1] in killed_ns, f"{pid} began while {running[1]} ran"
                assert killed_ns[running[1]] <= int(when), f"{pid} began before {running[1]} was dead"
            running = (int(when), int(pid))
        else:
            running = None


@pytest.mark.parametrize("seed", [1, 2])
def test_nobody_is_lost_or_answered_twice_and_never_two_hold(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    folder, notes = tmp_path / "device", tmp_path / "notes"
    server = AllocatorServer(settings=SETTINGS, folder=folder)
    replicas = [ReplicaProcess(folder, notes, num_blocks) for num_blocks in NUM_BLOCKS]
    killed_ns: dict[int, int] = {}
    for replica in replicas:
        replica.wait_until_ready()
    for step in range(NUM_STEPS):
        replica = choose.choice(replicas)
        action = choose.random()
        if action < 0.70:
            name = f"{seed}-{step}"
            replica.submitted.append(name)
            replica.pipe.send(("submit", name))
        elif action < 0.85 and replica.submitted:
            name = choose.choice(replica.submitted)
            replica.cancelled.add(name)
            replica.pipe.send(("cancel", name))
        elif action < 0.86:
            replica.take_answers()
            killed_ns[replica.process.pid or 0] = time.monotonic_ns()
            replica.process.kill()
            replica.process.join()
            successor = ReplicaProcess(folder, notes, replica.num_blocks)
            successor.wait_until_ready()
            replicas[replicas.index(replica)] = successor
        elif action < 0.87:
            server.close()
            time.sleep(choose.random() * 0.1)
            server = AllocatorServer(settings=SETTINGS, folder=folder)
        else:
            time.sleep(choose.random() * 0.01)
    end_s = time.monotonic() + LIMIT_S
    while not all(replica.is_done() for replica in replicas):
        assert time.monotonic() < end_s, "a request was lost"
        time.sleep(0.01)
    for replica in replicas:
        replica.pipe.send(None)
        replica.process.join(LIMIT_S)
        replica.take_answers()
        assert max(replica.answers.values()) == 1
        assert replica.answers.keys() <= set(replica.submitted)
    server.close()
    assert killed_ns
    assert_never_two_holders(notes, killed_ns)
    assert sum(sum(replica.answers.values()) for replica in replicas) > 50
