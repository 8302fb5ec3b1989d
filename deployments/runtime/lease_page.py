"""A page of memory that a replica and its allocator share, so that an undisturbed boundary sends nothing.

Six 64-bit words, each written by one side only and read whole (an aligned 8-byte store is atomic on the processors
that matter):

====  ==========  ==========================================================================
word  written by  meaning
====  ==========  ==========================================================================
0     replica     its process id
1     replica     lease << 16 | blocks done, while it runs under a lease; else 0
2     replica     nanoseconds of the monotonic clock when the running block began
3     allocator   the lease it wants back at the next boundary; stale numbers mean nothing
4     allocator   the lease that lasts too long; 0: none
5     allocator   the lease to pass the device on with when the turn ends; 0: none
====  ==========  ==========================================================================

Behind them lies, written by the allocator as well, what to do with that lease: the packet that grants it, and the
mailbox where to drop it. A checksum tells whether it was read while it was written.

Beside the page lies the replica's mailbox, a socket where others drop the packet that grants it a lease.

The replica keeps its page's file locked, so that everybody can tell whether it lives: the system releases the lock
with the process, however it ends (process ids are reused, and dead processes stay listed until they are waited for).
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import zlib
from pathlib import Path

import msgspec

from deployments.runtime.liveness import is_locked

_PID, _PROGRESS, _BOUNDARY_NS, _REVOKED, _OVERDUE, _NEXT = range(6)
_PAGE_BYTES = 4096
_OFFER_AT = 512
_OFFER = struct.Struct("<IqHH")  # checksum, the lease that may be passed on, lengths of mailbox and packet


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the holder has come.

    Attributes:
        lease: Under which lease it runs.
        blocks_done: Blocks finished so far.
        boundary_s: When the running block began, monotonic.
    """

    lease: int
    blocks_done: int
    boundary_s: float


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """How the holder passes the device on.

    Attributes:
        lease: With which lease.
        mailbox: Path of the mailbox of whoever gets it.
        packet: What to drop there: the grant.
    """

    lease: int
    mailbox: bytes
    packet: bytes


class LeasePage:
    """The shared page of one replica; the replica creates it, the allocator opens it.

    Attributes:
        path: Its file.
        mailbox_path: Where the replica takes grants from others of the device.
        mailbox: The same as the system takes it.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        """Map the page at ``path``.

        Raises:
            OSError: If the file cannot be created or opened.
        """
        self.path = path
        self.mailbox_path = path.with_suffix(".mail")
        self.mailbox = os.fsencode(self.mailbox_path)
        unready = path.with_suffix(".new")  # nobody may see the file before it is locked
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        self._descriptor = os.open(unready if create else path, flags, 0o600)
        if create:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            os.ftruncate(self._descriptor, _PAGE_BYTES)
        self._map = mmap.mmap(self._descriptor, _PAGE_BYTES)
        self._words = memoryview(self._map).cast("q")
        if create:
            self._words[_PID] = os.getpid()
            unready.rename(path)

    def is_replica_alive(self) -> bool:
        """Whether the process that created the page lives; asked by others."""
        return is_locked(self._descriptor)

    @property
    def pid(self) -> int:
        """Process id of the replica."""
        return self._words[_PID]

    # --- the replica's side

    def begin(self, lease: int, blocks_done: int, now_ns: int) -> None:
        """A turn or the next block of it begins now."""
        self._words[_BOUNDARY_NS] = now_ns
        self._words[_PROGRESS] = lease << 16 | blocks_done

    def end(self) -> None:
        """The turn is over."""
        self._words[_PROGRESS] = 0

    def is_revoked(self, lease: int) -> bool:
        """Whether the allocator wants this lease back."""
        return self._words[_REVOKED] == lease

    @property
    def overdue_lease(self) -> int | None:
        """The lease that lasts too long, if one does."""
        return self._words[_OVERDUE] or None

    def read_offer(self, holder_lease: int) -> Offer | None:
        """How to pass the device on when ``holder_lease`` ends; None: to nobody."""
        lease = self._words[_NEXT]
        if lease == 0:
            return None
        checksum, meant_for, path_bytes, packet_bytes = _OFFER.unpack_from(self._map, _OFFER_AT)
        if meant_for != holder_lease:
            return None
        middle = _OFFER_AT + _OFFER.size + path_bytes
        path, packet = self._map[_OFFER_AT + _OFFER.size : middle], self._map[middle : middle + packet_bytes]
        if checksum != zlib.crc32(packet, lease & 0xFFFFFFFF):
            return None
        return Offer(lease=lease, mailbox=path, packet=packet)

    # --- the allocator's side

    @property
    def progress(self) -> Progress | None:
        """How far the replica has come; None if it runs under no lease."""
        word = self._words[_PROGRESS]
        if word == 0:
            return None
        return Progress(lease=word >> 16, blocks_done=word & 0xFFFF, boundary_s=self._words[_BOUNDARY_NS] / 1e9)

    def revoke(self, lease: int) -> None:
        """Ask for the lease back at the next boundary."""
        self._words[_REVOKED] = lease

    def keep(self) -> None:
        """Take a revocation back."""
        self._words[_REVOKED] = 0

    def mark_overdue(self, lease: int) -> None:
        """Say that the lease lasts too long."""
        self._words[_OVERDUE] = lease

    def offer(self, holder_lease: int, offer: Offer) -> None:
        """Say how to pass the device on when ``holder_lease`` ends."""
        self._words[_NEXT] = 0
        checksum = zlib.crc32(offer.packet, offer.lease & 0xFFFFFFFF)
        head = _OFFER.pack(checksum, holder_lease, len(offer.mailbox), len(offer.packet))
        record = head + offer.mailbox + offer.packet
        self._map[_OFFER_AT : _OFFER_AT + len(record)] = record
        self._words[_NEXT] = offer.lease

    def withdraw_offer(self) -> None:
        """Name none any more."""
        self._words[_NEXT] = 0

    def close(self, *, unlink: bool = False) -> None:
        """Unmap the page; with ``unlink`` also remove its file."""
        self._words.release()
        self._map.close()
        os.close(self._descriptor)
        if unlink:
            self.path.unlink(missing_ok=True)
            self.mailbox_path.unlink(missing_ok=True)


def pages_of_living_replicas(folder: Path) -> set[str]:
    """File names of the lease pages whose replicas live; those of dead ones are removed."""
    living = set()
    for path in folder.glob("*.page"):
        page = open_page_of_living_replica(path)
        if page is not None:
            living.add(path.name)
            page.close()
    return living


def open_page_of_living_replica(path: Path) -> LeasePage | None:
    """The page at ``path``; None if its replica is dead, and then the page is removed."""
    with contextlib.suppress(OSError, ValueError):
        page = LeasePage(path, create=False)
        if page.is_replica_alive():
            return page
        page.close(unlink=True)
    return None
