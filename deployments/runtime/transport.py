"""Packets over a Unix socket of the node.

SOCK_SEQPACKET keeps message borders and reports a dead peer; where the system lacks it (macOS), packets are framed
on a stream with a 4-byte length. Paths must stay under 104 bytes, the smallest limit of the systems in use.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path

MAX_PATH_BYTES = 103
MAX_PACKET_BYTES = 1 << 20
_LENGTH = struct.Struct("!I")
_has_seqpacket = hasattr(socket, "SOCK_SEQPACKET") and os.uname().sysname == "Linux"
_KIND = socket.SOCK_SEQPACKET if _has_seqpacket else socket.SOCK_STREAM


class PacketSocket:
    """One end of a connection. ``send`` may be called by several threads only under the caller's lock."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._received = bytearray()  # framed streams only
        self._packet = bytearray(MAX_PACKET_BYTES if _has_seqpacket else 0)  # a new one each time costs 30 us

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def send(self, packet: bytes) -> None:
        """Send one packet, waiting for room.

        Raises:
            OSError: If the peer is gone; BlockingIOError if there is no room and the socket does not block.
        """
        if _has_seqpacket:
            self._socket.send(packet)
        else:
            self._socket.sendall(_LENGTH.pack(len(packet)) + packet)

    def receive(self) -> bytes | None:
        """The next packet; None once the peer is gone.

        Raises:
            BlockingIOError: If nothing is there and the socket does not block.
        """
        try:
            return self._receive()
        except (ConnectionError, BrokenPipeError):
            return None

    def _receive(self) -> bytes | None:
        if _has_seqpacket:
            num_bytes = self._socket.recv_into(self._packet)
            return bytes(memoryview(self._packet)[:num_bytes]) if num_bytes else None
        while True:
            if len(self._received) >= _LENGTH.size:
                end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
                if len(self._received) >= end:
                    packet = bytes(self._received[_LENGTH.size : end])
                    del self._received[:end]
                    return packet
            chunk = self._socket.recv(65536)
            if not chunk:
                return None
            self._received += chunk

    def set_blocking(self, is_blocking: bool) -> None:
        """Whether ``send`` and ``receive`` wait."""
        self._socket.setblocking(is_blocking)

    def shut_down(self) -> None:
        """Wake a thread that waits in ``receive``; it gets None."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end; the peer's ``receive`` gives None."""
        self._socket.close()


class Mailbox:
    """A datagram socket with a path, private to the user: other processes of the node drop small packets there."""

    def __init__(self, path: Path) -> None:
        """Make the mailbox at ``path``.

        Raises:
            OSError: If the path is too long or the folder not writable.
        """
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(os.fspath(path))
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """For poll(2)."""
        return self._socket.fileno()

    def try_send(self, path: bytes, packet: bytes) -> bool:
        """Drop a packet into another mailbox, or this one; False if nobody is there or it is full."""
        try:
            self._socket.sendto(packet, path)
        except OSError:
            return False
        return True

    def take(self) -> bytes | None:
        """The oldest packet; None if it is empty."""
        try:
            return self._socket.recv(4096)
        except BlockingIOError:
            return None

    def close(self) -> None:
        """Remove it."""
        self._socket.close()
        self.path.unlink(missing_ok=True)


class PacketListener:
    """A listening Unix socket, private to the user."""

    def __init__(self, path: Path) -> None:
        """Listen at ``path``, replacing what a dead process left there.

        Raises:
            OSError: If the path is too long or the folder not writable.
        """
        if len(os.fsencode(path)) > MAX_PATH_BYTES:
            raise OSError(f"socket path {path} is over {MAX_PATH_BYTES} bytes: use a shorter temporary folder")
        self.path = path
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, _KIND)
        self._socket.bind(os.fspath(path))
        path.chmod(0o600)
        self._socket.listen(128)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def accept(self) -> PacketSocket:
        """The next connection; it does not block."""
        connection, _ = self._socket.accept()
        connection.setblocking(False)
        return PacketSocket(connection)

    def close(self) -> None:
        """Stop listening and remove the file."""
        self._socket.close()
        self.path.unlink(missing_ok=True)


def connect(path: Path) -> PacketSocket:
    """A blocking connection to the listener at ``path``.

    Raises:
        OSError: If nobody listens there.
    """
    connection = socket.socket(socket.AF_UNIX, _KIND)
    try:
        connection.connect(os.fspath(path))
    except OSError:
        connection.close()
        raise
    return PacketSocket(connection)
