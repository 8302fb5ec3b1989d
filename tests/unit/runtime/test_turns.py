"""Turns for measuring wait behind all requests and have the device alone; claims change the device's settings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from deployments.runtime.errors import ReplicaClosedError
from deployments.runtime.settings import DeviceSettings
from deployments.runtime.turns import TurnTaker
from tests.unit.runtime.lease_world import LIMIT_S, LeaseWorld

SLO = DeviceSettings(mode="slo")
FIFO = msgspec.structs.replace(SLO, mode="fifo")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LeaseWorld]:
    world = LeaseWorld(tmp_path / "device", SLO)
    yield world
    world.close()


def test_a_turn_waits_behind_requests_that_came_later_and_others_wait_for_its_end(world: LeaseWorld) -> None:
    first, second = world.replica("first", 1), world.replica("second", 1)
    is_inside, may_leave = threading.Event(), threading.Event()

    def measure() -> None:
        with taker.turn():
            is_inside.set()
            assert may_leave.wait(LIMIT_S)

    with TurnTaker("measuring", SLO, world.find_socket) as taker:
        first.submit("a")
        first.chain.wait_for_block()
        thread = threading.Thread(target=measure)
        thread.start()
        world.wait_until(lambda: world.num_waiting() == 1)
        second.submit("b")
        world.wait_until(lambda: world.num_waiting() == 2)
        first.chain.allow()
        second.chain.wait_for_block()
        assert not is_inside.is_set()
        second.chain.allow()
        assert is_inside.wait(LIMIT_S)
        answer = first.submit("c")
        world.wait_until(lambda: world.num_waiting() == 1)
        may_leave.set()
        first.chain.wait_for_block()
        first.chain.allow()
        assert answer.result(LIMIT_S)
        thread.join()
        with taker.turn():
            assert world.num_waiting() == 0
    world.wait_until(lambda: len(world.slices()) == 5)
    assert [turn.model for turn in world.slices()] == ["first", "second", "measuring", "first", "measuring"]


def test_a_turn_on_a_device_that_one_has_left_is_an_error(world: LeaseWorld) -> None:
    taker = TurnTaker("measuring", SLO, world.find_socket)
    taker.close()
    with pytest.raises(ReplicaClosedError), taker.turn():
        raise AssertionError("nobody has granted this")


def test_claims_of_replicas_change_the_settings_and_survive_the_allocator(world: LeaseWorld) -> None:
    replicas = [world.replica(name, 2) for name in ("a", "b")]
    replicas[0].thread.claim(FIFO)
    world.wait_until(lambda: world.server.settings == FIFO)
    replicas[1].thread.claim(msgspec.structs.replace(SLO, max_waiting=1))
    world.wait_until(lambda: bool(world.server.status()["conflict"]))
    assert world.server.settings == FIFO
    replicas[1].thread.claim(FIFO)
    world.wait_until(lambda: world.server.status()["conflict"] == "")
    world.restart_allocator()
    world.wait_until(lambda: world.server.settings == FIFO)
    replicas[0].thread.claim(None)
    replicas[1].thread.claim(None)
    world.wait_until(lambda: world.server.settings == SLO)
