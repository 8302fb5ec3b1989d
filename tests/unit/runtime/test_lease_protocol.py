"""The lease protocol over real sockets, with blocks that wait for the test."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.runtime.device_page import DEVICE_PAGE_FILE
from deployments.runtime.errors import (
    BlockFailedError,
    LeaseOverdueError,
    ReplicaClosedError,
    SettingsConflictError,
)
from deployments.runtime.messages import (
    Grant,
    Refused,
    Submit,
    encode,
)
from deployments.runtime.queue_page import QUEUE_PAGE_FILE
from deployments.runtime.settings import DeviceSettings
from deployments.runtime.transport import connect
from deployments.scheduling.errors import QueueFullError
from deployments.scheduling.request import RequestId
from tests.raw_replica import RawReplica, make_request
from tests.unit.runtime.lease_world import LIMIT_S, LeaseWorld

SRPT = DeviceSettings(mode="slo", policy="srpt", max_waiting=3)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LeaseWorld]:
    world = LeaseWorld(tmp_path / "device", SRPT)
    yield world
    world.close()


def turns(world: LeaseWorld) -> list[tuple[str, int, int, str]]:
    return [(s.request_id, s.first_block, len(s.block_ends_s), s.outcome) for s in world.slices()]


def assert_turns(world: LeaseWorld, expected: list[tuple[str, int, int, str]]) -> None:
    """The log has exactly these turns; an answer may reach its client before its turn reaches the log."""
    world.wait_until(lambda: len(turns(world)) >= len(expected))
    assert turns(world) == expected


def test_a_short_request_runs_after_the_running_block_of_a_long_one(world: LeaseWorld) -> None:
    long, short = world.replica("long", 4), world.replica("short", 1)
    long_answer = long.submit("l")
    long.chain.wait_for_block()
    short_answer = short.submit("s")
    world.wait_until(lambda: world.num_waiting() == 1)
    long.chain.allow()
    short.chain.wait_for_block()
    assert not long_answer.done()
    short.chain.allow()
    assert short_answer.result(LIMIT_S)["ran"].tolist() == [0]
    long.chain.allow(3)
    assert long_answer.result(LIMIT_S)["ran"].tolist() == [0, 1, 2, 3]
    assert_turns(world, [("l", 0, 1, "yielded"), ("s", 0, 1, "finished"), ("l", 1, 3, "finished")])


def test_an_undisturbed_request_is_one_turn(world: LeaseWorld) -> None:
    replica = world.replica("m", 5)
    replica.chain.allow(5)
    replica.submit("r").result(LIMIT_S)
    assert_turns(world, [("r", 0, 5, "finished")])


def test_a_cancelled_waiting_request_leaves_the_queue_and_is_never_run(world: LeaseWorld) -> None:
    long, short = world.replica("long", 2), world.replica("short", 5)
    long_answer = long.submit("l")
    long.chain.wait_for_block()
    never = short.submit("s")
    world.wait_until(lambda: world.num_waiting() == 1)
    short.thread.cancel(RequestId("s"))
    world.wait_until(lambda: world.num_waiting() == 0)
    long.chain.allow(2)
    long_answer.result(LIMIT_S)
    assert not never.done()
    world.wait_until(lambda: bool(turns(world)))
    assert [turn[0] for turn in turns(world)] == ["l"]


def test_a_cancelled_running_request_leaves_the_device_at_the_next_boundary(world: LeaseWorld) -> None:
    first, second = world.replica("first", 3), world.replica("second", 3)
    never = first.submit("f")
    first.chain.wait_for_block()
    second_answer = second.submit("s")
    first.thread.cancel(RequestId("f"))
    first.chain.allow()
    second.chain.allow(3)
    second_answer.result(LIMIT_S)
    assert not never.done()
    assert_turns(world, [("f", 0, 1, "cancelled"), ("s", 0, 3, "finished")])


def test_a_failing_block_is_answered_with_its_reason_and_the_device_goes_on(world: LeaseWorld) -> None:
    broken, sound = world.replica("broken", 3, fails_in_block=1), world.replica("sound", 1)
    broken.chain.allow(2)
    with pytest.raises(BlockFailedError, match="block 1 of 'broken' failed: no kernel image"):
        broken.submit("b").result(LIMIT_S)
    sound.chain.allow()
    sound.submit("s").result(LIMIT_S)
    assert_turns(world, [("b", 0, 1, "failed"), ("s", 0, 1, "finished")])


def test_more_waiting_requests_than_allowed_are_refused_by_name(world: LeaseWorld) -> None:
    replica = world.replica("m", 1)
    answers = [replica.submit("running")]
    replica.chain.wait_for_block()
    answers += [replica.submit(f"waiting-{index}") for index in range(3)]
    refused = replica.submit("one too many")
    replica.chain.allow(4)
    with pytest.raises(QueueFullError, match="one too many"):
        refused.result(LIMIT_S)
    assert all(answer.result(LIMIT_S) for answer in answers)


def test_a_replica_with_other_settings_is_refused_and_told_what_differs(world: LeaseWorld) -> None:
    world.replica("first", 1)
    world.settings = DeviceSettings(mode="fifo", max_waiting=3)
    with pytest.raises(SettingsConflictError, match="mode: 'fifo' here, 'slo' there"):
        world.replica("second", 1)


def test_a_closed_replica_answers_what_it_has_not_run(world: LeaseWorld) -> None:
    busy, leaving = world.replica("busy", 1), world.replica("leaving", 1)
    busy_answer = busy.submit("b")
    busy.chain.wait_for_block()
    left = leaving.submit("l")
    leaving.thread.close()
    with pytest.raises(ReplicaClosedError, match="'leaving'"):
        left.result(LIMIT_S)
    with pytest.raises(ReplicaClosedError, match="send the request again"):
        leaving.submit("later")
    busy.chain.allow()
    busy_answer.result(LIMIT_S)


def test_a_turn_outlives_the_allocator_and_what_waits_is_announced_to_the_next_one(world: LeaseWorld) -> None:
    running, waiting = world.replica("running", 3), world.replica("waiting", 2)
    running_answer = running.submit("r")
    running.chain.wait_for_block()
    waiting_answer = waiting.submit("w")
    world.wait_until(lambda: world.num_waiting() == 1)
    world.restart_allocator()
    world.wait_until(lambda: world.num_waiting() == 1)
    waiting.chain.allow(2)
    assert not waiting_answer.done()
    running.chain.allow(3)
    assert running_answer.result(LIMIT_S)["ran"].tolist() == [0, 1, 2]
    assert waiting_answer.result(LIMIT_S)["ran"].tolist() == [0, 1]
    assert_turns(world, [("w", 0, 2, "finished")])  # the turn that outlived its allocator is in nobody's log


def test_after_a_restart_with_idle_replicas_the_device_works_on(world: LeaseWorld) -> None:
    replica = world.replica("m", 1)
    world.restart_allocator()
    replica.chain.allow()
    assert replica.submit("r").result(LIMIT_S)["ran"].tolist() == [0]


def submit(replica: RawReplica, request_id: str) -> None:
    replica.send(Submit(request=make_request(request_id, owner=replica.name)))


def test_the_death_of_the_holder_frees_the_device_at_once(world: LeaseWorld) -> None:
    holder, other = world.raw_replica("holder"), world.raw_replica("other")
    submit(holder, "h")
    assert isinstance(holder.receive(), Grant)
    submit(other, "o")
    world.wait_until(lambda: world.num_waiting() == 1)
    holder.socket.close()
    grant = other.receive()
    assert isinstance(grant, Grant)
    assert grant.request_id == "o"
    other.close()


def test_another_protocol_version_is_refused(world: LeaseWorld) -> None:
    old = RawReplica(world.find_socket(), world.settings, "old", version=0)
    answer = old.receive()
    assert isinstance(answer, Refused)
    assert answer.reason == "version"
    assert old.receive() is None
    old.close()


def test_a_broken_packet_closes_only_its_own_connection(world: LeaseWorld, caplog: pytest.LogCaptureFixture) -> None:
    broken, sound = world.raw_replica("broken"), world.replica("sound", 1)
    with caplog.at_level(logging.CRITICAL):
        broken.socket.send(b"\xc1 this is no message")
        assert broken.receive() is None
    sound.chain.allow()
    assert sound.submit("s").result(LIMIT_S)["ran"].tolist() == [0]
    broken.close()


def test_a_request_before_hello_closes_the_connection(world: LeaseWorld) -> None:
    stranger = connect(world.find_socket())
    stranger.send(encode(Submit(request=make_request("r", owner="nobody"))))
    assert stranger.receive() is None
    stranger.close()


def test_an_overdue_lease_makes_the_replica_unhealthy_and_never_makes_two_holders(tmp_path: Path) -> None:
    world = LeaseWorld(tmp_path / "device", DeviceSettings(mode="fifo", lease_limit_s=0.05))
    stuck, other = world.replica("stuck", 1), world.replica("other", 1)
    stuck_answer = stuck.submit("s")
    stuck.chain.wait_for_block()
    other_answer = other.submit("o")

    def is_unhealthy() -> bool:
        try:
            stuck.thread.check_health()
        except LeaseOverdueError:
            return True
        return False

    world.wait_until(is_unhealthy)
    other.chain.allow()
    assert not other_answer.done()
    stuck.chain.allow()
    stuck_answer.result(LIMIT_S)
    other_answer.result(LIMIT_S)
    stuck.thread.check_health()
    world.close()


def test_a_closed_allocator_hangs_up_on_those_that_have_not_said_hello_too(world: LeaseWorld) -> None:
    stranger = connect(world.find_socket())
    world.wait_until(lambda: bool(world.server._connections))
    world.server.close()
    assert stranger.receive() is None
    stranger.close()
    world.restart_allocator_that_is_closed()


def test_nothing_but_the_pages_of_a_device_are_left_in_the_folder_of_a_closed_device(tmp_path: Path) -> None:
    world = LeaseWorld(tmp_path / "device", SRPT)
    world.replica("m", 1)
    world.close()
    assert {path.name for path in (tmp_path / "device").iterdir()} == {DEVICE_PAGE_FILE, QUEUE_PAGE_FILE}
