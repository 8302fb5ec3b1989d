"""Messages of the lease protocol between a replica and the allocator of its device.

One message is one packet (SOCK_SEQPACKET keeps the borders). A replica says ``Hello`` first and is answered with
``Welcome`` or ``Refused``; then it submits requests, is granted leases for them, and gives each lease back with
``Yield`` (and competes again, as one step) or ``Finish``. Nothing is sent at an undisturbed boundary: progress and the
revoke flag lie in the replica's lease page (``lease_page.py``).

Two short cuts keep the allocator out of the time in which the device idles. While a turn runs, the allocator names the
one that comes next in the holder's lease page; the holder wakes that one itself, by its mailbox, and says so afterwards
(``passed_lease``). And a replica takes a device that is free without asking (``device_page.py``), and says so with its
request (``taken_lease``). A lease that the allocator hears of from a later owner first is no error: messages of
different replicas cross.

All times are seconds of the node's monotonic clock, which its processes share.
"""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.request import Request, RequestId

PROTOCOL_VERSION = 3

Outcome = Literal["yielded", "finished", "failed", "cancelled"]


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """One turn on a device, as the replica saw it.

    Attributes:
        request_id: Whose turn.
        model: Its model.
        lease: Number of the lease, which grows with time (``next_lease``).
        first_block: First block of the turn.
        start_s: When the first block began.
        block_ends_s: When each block of the turn ended; shorter by one block where that block failed.
        end_s: When the turn ended.
        outcome: Why it ended.
    """

    request_id: RequestId
    model: str
    lease: int
    first_block: int
    start_s: float
    block_ends_s: tuple[float, ...]
    end_s: float
    outcome: Outcome


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """First message of a replica.

    Attributes:
        version: ``PROTOCOL_VERSION`` of the sender.
        owner: Unique name of the replica.
        model: Its model.
        pid: Its process.
        page: File name of its lease page, in the folder of the socket.
        settings: What it takes the device's settings to be.
        claim: The settings it wants instead; None: it has no wish.
        memory_bytes: Device memory that its blocks will take.
        num_announced: How many ``Announce`` follow.
    """

    version: int
    owner: str
    model: str
    pid: int
    page: str
    settings: DeviceSettings
    claim: DeviceSettings | None = None
    memory_bytes: int = 0
    num_announced: int


class Announce(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A request that waited when the last allocator died.

    A turn that outlives its allocator is not announced: it goes on to its end (the lease page shows it, and the new
    allocator grants nothing before that).
    """

    request: Request
    blocks_done: int


class Submit(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A new request wants the device.

    Attributes:
        request: The request.
        taken_lease: The lease under which it runs already, because the device was free; None: it waits.
    """

    request: Request
    taken_lease: int | None = None


class Yield(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The holder gives the device up at a boundary and competes for it again.

    Attributes:
        request_id: The holder.
        lease: The lease that ends.
        blocks_done: Blocks it has finished in all.
        passed_lease: The lease with which it has passed the device on; None: it has told nobody.
        turn: The turn, for the log; None: no block was run.
    """

    request_id: RequestId
    lease: int
    blocks_done: int
    passed_lease: int | None = None
    turn: Slice | None = None


class Finish(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The holder gives the device up for good; attributes as in ``Yield``."""

    request_id: RequestId
    lease: int
    passed_lease: int | None = None
    turn: Slice | None = None


class Undelivered(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The mailbox to which the lease was to be passed on took no packet: the allocator has to tell that one."""

    lease: int


class Claim(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The replica wants other settings of the device, or none in particular any more; see ``claims.py``."""

    settings: DeviceSettings | None


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The request is no longer wanted: it leaves the queue at once, or the device at the next boundary."""

    request_id: RequestId


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The allocator takes the replica in; ``settings`` are in force now."""

    owner: str
    settings: DeviceSettings


class InForce(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Other settings of the device are in force from now on."""

    settings: DeviceSettings


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The allocator does not take the replica in; it closes the connection after this."""

    reason: Literal["version", "settings", "memory"]
    message: str


class Grant(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The device is the request's until the lease is revoked or given back.

    Attributes:
        request_id: Whose.
        lease: Number of the lease.
        is_exclusive: Whether the turn lock is to be held.
    """

    request_id: RequestId
    lease: int
    is_exclusive: bool = True


class Rejected(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The allocator does not queue the request, or no longer: it has ended.

    Attributes:
        request_id: Which one.
        error: Name of an error class of ``deployments.scheduling.errors``.
        error_args: What it is built from.
    """

    request_id: RequestId
    error: str
    error_args: tuple[str | int | float, ...]


ToAllocator = Hello | Announce | Submit | Yield | Finish | Undelivered | Cancel | Claim
ToReplica = Welcome | InForce | Refused | Grant | Rejected


def next_lease(last: int) -> int:
    """A number for a new lease: larger than ``last``, and than all that were given out earlier, by whomever."""
    return max(last + 1, time.monotonic_ns() >> 14)  # 16 us; with 16 bits for blocks it fits a word for 70 years


_encoder = msgspec.msgpack.Encoder()
_to_allocator_decoder: msgspec.msgpack.Decoder[ToAllocator] = msgspec.msgpack.Decoder(ToAllocator)
_to_replica_decoder: msgspec.msgpack.Decoder[ToReplica] = msgspec.msgpack.Decoder(ToReplica)


def encode(message: ToAllocator | ToReplica) -> bytes:
    """The message as one packet."""
    return _encoder.encode(message)


def decode_to_allocator(packet: bytes) -> ToAllocator:
    """The message of a replica.

    Raises:
        msgspec.DecodeError: If it is none.
    """
    return _to_allocator_decoder.decode(packet)


def decode_to_replica(packet: bytes) -> ToReplica:
    """The message of an allocator.

    Raises:
        msgspec.DecodeError: If it is none.
    """
    return _to_replica_decoder.decode(packet)
