"""The allocator's end of the connection to one replica."""

from __future__ import annotations

from collections import deque

from deployments.runtime.lease_page import LeasePage
from deployments.runtime.messages import Hello, ToReplica, encode
from deployments.runtime.transport import PacketSocket


class ReplicaConnection:
    """Sends without ever waiting; knows what the replica has said of itself.

    Attributes:
        hello: Its first message; None before it.
        page: Its lease page; None before ``hello``.
        num_to_announce: Announcements still to come.
        is_watched_for_room: Whether somebody waits for room to send, because packets are left.
    """

    def __init__(self, connection: PacketSocket) -> None:
        self._connection = connection
        self._outbox: deque[bytes] = deque()
        self.hello: Hello | None = None
        self.page: LeasePage | None = None
        self.num_to_announce = 0
        self.is_watched_for_room = False

    def fileno(self) -> int:
        """For poll(2); negative once closed."""
        return self._connection.fileno()

    def receive(self) -> bytes | None:
        """The next packet; None once the replica is gone.

        Raises:
            BlockingIOError: If nothing is there.
        """
        return self._connection.receive()

    def send(self, message: ToReplica) -> bool:
        """Send a message behind those that are left; False if packets are left now."""
        self._outbox.append(encode(message))
        return self.flush()

    def flush(self) -> bool:
        """Send what is left as far as there is room; False if packets are left now."""
        try:
            while self._outbox:
                self._connection.send(self._outbox[0])
                self._outbox.popleft()
        except BlockingIOError:
            return False
        except OSError:
            self._outbox.clear()  # the replica is gone; reading says so next
        return True

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
