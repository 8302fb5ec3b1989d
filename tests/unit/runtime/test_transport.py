"""Packets over Unix sockets, framed streams included."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployments.runtime import transport
from deployments.runtime.transport import PacketListener, PacketSocket, connect


@pytest.fixture(params=["seqpacket", "stream"])
def pair(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[PacketSocket, PacketSocket]]:
    if request.param == "stream":
        monkeypatch.setattr(transport, "_has_seqpacket", False)
        kind = socket.SOCK_STREAM
    else:
        kind = socket.SOCK_SEQPACKET
    first, second = socket.socketpair(socket.AF_UNIX, kind)
    yield PacketSocket(first), PacketSocket(second)
    first.close()
    second.close()


@given(packets=st.lists(st.binary(min_size=1, max_size=2000), max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_packets_keep_their_borders_and_order(pair: tuple[PacketSocket, PacketSocket], packets: list[bytes]) -> None:
    sender, receiver = pair
    for packet in packets:
        sender.send(packet)
    assert [receiver.receive() for _ in packets] == packets


def test_a_closed_peer_reads_as_none(pair: tuple[PacketSocket, PacketSocket]) -> None:
    sender, receiver = pair
    sender.send(b"last words")
    sender.close()
    assert receiver.receive() == b"last words"
    assert receiver.receive() is None


def test_shutting_down_wakes_the_own_reader(pair: tuple[PacketSocket, PacketSocket]) -> None:
    mine, _ = pair
    mine.shut_down()
    assert mine.receive() is None


def test_the_socket_file_is_private_and_goes_with_the_listener(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    listener = PacketListener(path)
    assert path.stat().st_mode & 0o077 == 0
    connection = connect(path)
    accepted = listener.accept()
    connection.send(b"hello")
    accepted.set_blocking(True)
    assert accepted.receive() == b"hello"
    connection.close()
    accepted.close()
    listener.close()
    assert not path.exists()


def test_a_path_that_no_system_takes_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="over 103 bytes"):
        PacketListener(tmp_path / ("x" * 104))
