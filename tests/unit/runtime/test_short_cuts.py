"""Turns that begin without the allocator: passed on by the holder, or taken because the device was free.

The allocator is made to sleep by holding the lock under which it handles events.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.runtime.messages import Cancel, Finish, Grant, Submit, ToAllocator, ToReplica, Undelivered, Yield
from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.request import RequestId
from tests.raw_replica import RawReplica, make_request
from tests.unit.runtime.lease_world import LIMIT_S, LeaseWorld

FIFO = DeviceSettings(mode="fifo")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LeaseWorld]:
    world = LeaseWorld(tmp_path / "device", FIFO)
    yield world
    world.close()


def submit(replica: RawReplica, request_id: str, *, taken_lease: int | None = None, num_blocks: int = 1) -> None:
    request = make_request(request_id, owner=replica.name, block_times_s=(1.0,) * num_blocks)
    replica.send(Submit(request=request, taken_lease=taken_lease))


def num_known(world: LeaseWorld) -> int:
    snapshot = world.snapshot()
    return len(snapshot["waiting"]) + len(snapshot["holders"])


def holders(world: LeaseWorld) -> list[str]:
    return [view["request_id"] for view in world.snapshot()["holders"]]


def granted(message: ToReplica | None) -> tuple[str, int]:
    assert isinstance(message, Grant)
    return message.request_id, message.lease


def test_a_free_device_is_taken_while_the_allocator_sleeps(world: LeaseWorld) -> None:
    replica = world.replica("m", 1)
    with world.server._lock:
        replica.chain.allow()
        answer = replica.submit("r")
        assert answer.result(LIMIT_S)["ran"].tolist() == [0]
    world.wait_until(lambda: [turn.request_id for turn in world.slices()] == ["r"])


def test_a_turn_of_a_free_device_begins_while_the_allocator_is_being_told(
    world: LeaseWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = world.replica("m", 1)
    send = replica.thread._try_send

    def send_late(message: ToAllocator) -> None:
        if isinstance(message, Submit):
            replica.chain.wait_for_block()
        send(message)

    monkeypatch.setattr(replica.thread, "_try_send", send_late)
    answer = replica.submit("r")
    replica.chain.allow()
    assert answer.result(LIMIT_S)["ran"].tolist() == [0]
    world.wait_until(lambda: [turn.request_id for turn in world.slices()] == ["r"])


def test_a_replica_that_cannot_tell_itself_of_a_free_device_is_granted_it(
    world: LeaseWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = world.replica("m", 1)
    assert replica.thread._files is not None
    monkeypatch.setattr(replica.thread._files.mailbox, "try_send", lambda _path, _packet: False)
    replica.chain.allow(2)
    for name in ("r", "s"):
        assert replica.submit(name).result(LIMIT_S)["ran"].tolist() == [0]
    world.wait_until(lambda: [turn.request_id for turn in world.slices()] == ["r", "s"])


def test_the_next_holder_starts_while_the_allocator_sleeps(world: LeaseWorld) -> None:
    first, second = world.replica("first", 1), world.replica("second", 1)
    first_answer = first.submit("f")
    first.chain.wait_for_block()
    second_answer = second.submit("s")
    world.wait_until(lambda: num_known(world) == 2)
    with world.server._lock:
        first.chain.allow()
        second.chain.wait_for_block()
        second.chain.allow()
        assert first_answer.result(LIMIT_S)["ran"].tolist() == [0]
        assert second_answer.result(LIMIT_S)["ran"].tolist() == [0]
    world.wait_until(lambda: [turn.request_id for turn in world.slices()] == ["f", "s"])
    assert num_known(world) == 0


def test_of_two_that_come_to_a_free_device_at_once_one_waits_for_the_other(world: LeaseWorld) -> None:
    replicas = [world.replica(name, 1) for name in ("first", "second")]
    with world.server._lock:
        answers = [replica.submit(f"r{index}") for index, replica in enumerate(replicas)]
        replicas[0].chain.wait_for_block()
    world.wait_until(lambda: num_known(world) == 2)
    assert not any(answer.done() for answer in answers)
    for replica, answer in zip(replicas, answers, strict=True):
        replica.chain.allow()
        answer.result(LIMIT_S)
    world.wait_until(lambda: len(world.slices()) == 2)
    first, second = world.slices()
    assert first.end_s <= second.start_s


def test_a_turn_that_was_taken_while_another_was_granted_gives_way_at_its_boundary(world: LeaseWorld) -> None:
    granted_one, taker = world.raw_replica("granted"), world.raw_replica("taker")
    submit(granted_one, "g")
    request_id, lease = granted(granted_one.receive())
    assert request_id == "g"
    submit(taker, "t", taken_lease=lease + 1, num_blocks=2)
    world.wait_until(lambda: taker.page.is_revoked(lease + 1))
    taker.send(Yield(request_id=RequestId("t"), lease=lease + 1, blocks_done=1))
    granted_one.send(Finish(request_id=RequestId("g"), lease=lease))
    assert granted(taker.receive())[0] == "t"
    granted_one.close()
    taker.close()


def offered(replica: RawReplica, lease: int) -> int:
    offer = replica.page.read_offer(lease)
    assert offer is not None
    return offer.lease


def holder_and_next(world: LeaseWorld) -> tuple[RawReplica, int, RawReplica, int]:
    """Two replicas, the lease of the first, and the one that it may pass on to the second."""
    first, second = world.raw_replica("first"), world.raw_replica("second")
    submit(first, "f", num_blocks=2)
    _, lease = granted(first.receive())
    submit(second, "s", num_blocks=2)
    world.wait_until(lambda: first.page.read_offer(lease) is not None)
    return first, lease, second, offered(first, lease)


def test_an_offer_is_for_one_lease_only_and_withdrawn_when_nobody_waits(world: LeaseWorld) -> None:
    first, lease, second, _ = holder_and_next(world)
    assert first.page.read_offer(lease + 1) is None
    second.send(Cancel(request_id=RequestId("s")))
    world.wait_until(lambda: first.page.read_offer(lease) is None)
    first.close()
    second.close()


def test_the_end_of_a_turn_may_be_known_before_its_beginning(world: LeaseWorld) -> None:
    first, lease, second, next_lease = holder_and_next(world)
    second.send(Finish(request_id=RequestId("s"), lease=next_lease))
    world.wait_until(lambda: num_known(world) == 1)
    first.send(Finish(request_id=RequestId("f"), lease=lease, passed_lease=next_lease))
    world.wait_until(lambda: num_known(world) == 0)
    first.close()
    second.close()


def test_blocks_that_were_run_before_the_beginning_is_known_are_not_run_again(world: LeaseWorld) -> None:
    first, lease, second, next_lease = holder_and_next(world)
    second.send(Yield(request_id=RequestId("s"), lease=next_lease, blocks_done=1))
    first.send(Finish(request_id=RequestId("f"), lease=lease, passed_lease=next_lease))
    request_id, again = granted(second.receive())
    assert request_id == "s"
    assert again > next_lease
    assert [view["blocks_done"] for view in world.snapshot()["holders"]] == [1]
    first.close()
    second.close()


def test_a_lease_that_could_not_be_delivered_is_granted_by_the_allocator(world: LeaseWorld) -> None:
    first, lease, second, next_lease = holder_and_next(world)
    first.send(Finish(request_id=RequestId("f"), lease=lease, passed_lease=next_lease))
    first.send(Undelivered(lease=next_lease))
    assert granted(second.receive()) == ("s", next_lease)
    first.close()
    second.close()


def test_who_is_cancelled_while_the_device_is_passed_on_to_it_does_not_keep_it(world: LeaseWorld) -> None:
    first, lease, second, next_lease = holder_and_next(world)
    second.send(Cancel(request_id=RequestId("s")))
    submit(second, "later")
    world.wait_until(lambda: num_known(world) == 2)
    first.send(Finish(request_id=RequestId("f"), lease=lease, passed_lease=next_lease))
    second.send(Finish(request_id=RequestId("s"), lease=next_lease))  # the packet found nobody
    assert granted(second.receive())[0] == "later"
    first.close()
    second.close()


def test_the_death_of_the_holder_that_has_passed_the_device_on_frees_it_once(world: LeaseWorld) -> None:
    first, _, second, next_lease = holder_and_next(world)
    first.close()
    request_id, lease = granted(second.receive())
    assert request_id == "s"
    assert lease > next_lease
    second.send(Finish(request_id=RequestId("s"), lease=next_lease))  # of the turn that was passed on
    second.send(Finish(request_id=RequestId("s"), lease=lease))  # of the one that was granted, which found it ended
    world.wait_until(lambda: num_known(world) == 0)
    assert holders(world) == []
    second.close()
