"""A replica that speaks the lease protocol by hand, message by message."""

from __future__ import annotations

import os
import time
from pathlib import Path

from deployments.runtime.lease_page import LeasePage
from deployments.runtime.messages import (
    PROTOCOL_VERSION,
    Hello,
    ToAllocator,
    ToReplica,
    decode_to_replica,
    encode,
)
from deployments.runtime.settings import DeviceSettings
from deployments.runtime.transport import connect
from deployments.scheduling.request import Request, RequestId


class RawReplica:
    """Connected, with ``Hello`` sent and its answer not yet received."""

    def __init__(
        self, socket_path: Path, settings: DeviceSettings, name: str, *, version: int = PROTOCOL_VERSION
    ) -> None:
        self.name = name
        self.page = LeasePage(socket_path.parent / f"{name}.page", create=True)
        self.socket = connect(socket_path)
        self.send(
            Hello(
                version=version,
                owner=name,
                model=name,
                pid=os.getpid(),
                page=self.page.path.name,
                settings=settings,
                num_announced=0,
            )
        )

    def send(self, message: ToAllocator) -> None:
        """Send one message."""
        self.socket.send(encode(message))

    def receive(self) -> ToReplica | None:
        """The next message; None once the allocator has closed the connection."""
        packet = self.socket.receive()
        return None if packet is None else decode_to_replica(packet)

    def close(self) -> None:
        """Disconnect."""
        self.socket.close()
        self.page.close(unlink=True)


def make_request(
    request_id: str, *, owner: str, arrival_s: float | None = None, block_times_s: tuple[float, ...] = (1.0,)
) -> Request:
    """A request without a deadline that matters; it arrives now unless told otherwise."""
    return Request(
        request_id=RequestId(request_id),
        model=owner,
        owner=owner,
        arrival_s=time.monotonic() if arrival_s is None else arrival_s,
        isolated_s=sum(block_times_s),
        block_times_s=block_times_s,
        deadline_s=1e12,
    )
