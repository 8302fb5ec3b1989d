"""The allocator's connections to the replicas of its device, all watched by one thread in poll(2)."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from pathlib import Path

from deployments.runtime.messages import ToReplica
from deployments.runtime.replica_connection import ReplicaConnection
from deployments.runtime.transport import PacketListener

Events = list[tuple[int, int]]
"""Descriptors that are ready, and for what."""


class Connections:
    """Takes in replicas, receives their packets and sends them messages, without ever waiting for one of them."""

    def __init__(
        self,
        socket_path: Path,
        *,
        on_packet: Callable[[ReplicaConnection, bytes], None],
        on_lost: Callable[[ReplicaConnection], None],
    ) -> None:
        """Listen at ``socket_path``.

        Args:
            socket_path: Where replicas connect.
            on_packet: Told each packet, inside ``handle`` or ``receive_all``.
            on_lost: Told of each connection that its replica, or ``drop``, has closed.
        """
        self._on_packet = on_packet
        self._on_lost = on_lost
        self._all: set[ReplicaConnection] = set()  # also those that have not said Hello
        self._listener = PacketListener(socket_path)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._watch(self._listener.fileno(), lambda _mask: self._accept())
        self._watch(self._wake_reader.fileno(), lambda _mask: None)

    def wait(self, timeout_ms: float | None) -> Events:
        """What is ready; waits for it, at most so long if that is given."""
        return self._poll.poll(timeout_ms)

    def wake(self) -> None:
        """End ``wait``, now and from now on; called by another thread."""
        self._wake_writer.send(b"x")

    def handle(self, events: Events) -> None:
        """Do what ``wait`` has said is there to be done."""
        for descriptor, mask in events:
            if (handler := self._handlers.get(descriptor)) is not None:
                handler(mask)

    def receive_all(self, replica: ReplicaConnection) -> None:
        """Hear what a replica has sent so far."""
        while True:
            try:
                packet = replica.receive()
            except BlockingIOError:
                return
            if packet is None:
                self.drop(replica)
                return
            self._on_packet(replica, packet)
            if replica.fileno() < 0:
                return

    def send(self, replica: ReplicaConnection, message: ToReplica) -> None:
        """Send a message, now or as soon as there is room."""
        self._watch_for_room(replica, not replica.send(message))

    def drop(self, replica: ReplicaConnection) -> None:
        """Close a connection."""
        self._poll.unregister(replica.fileno())
        del self._handlers[replica.fileno()]
        self._all.discard(replica)
        replica.close()
        self._on_lost(replica)

    def hang_up(self) -> None:
        """Close all connections and remove the socket; the thread that waits is over."""
        for replica in self._all:
            replica.close()
        self._listener.close()

    def close(self) -> None:
        """Close what ``wake`` needs."""
        self._wake_reader.close()
        self._wake_writer.close()

    def _watch(self, descriptor: int, handler: Callable[[int], None]) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.POLLIN)

    def _accept(self) -> None:
        replica = ReplicaConnection(self._listener.accept())
        self._all.add(replica)
        self._watch(replica.fileno(), lambda mask: self._on_ready(replica, mask))

    def _on_ready(self, replica: ReplicaConnection, mask: int) -> None:
        if mask & select.POLLOUT:
            self._watch_for_room(replica, not replica.flush())
        if mask & ~select.POLLOUT:
            self.receive_all(replica)

    def _watch_for_room(self, replica: ReplicaConnection, is_needed: bool) -> None:
        if is_needed != replica.is_watched_for_room:
            replica.is_watched_for_room = is_needed
            self._poll.modify(replica.fileno(), select.POLLIN | select.POLLOUT if is_needed else select.POLLIN)
