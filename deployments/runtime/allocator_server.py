"""One thread that carries out what the scheduling core of one device decides.

It owns the socket, the clock and the lease pages; the core (``DeviceAllocator``) owns every decision. Nothing here
spins: the thread sleeps in poll(2) until a packet arrives or a time that the core or a lease has asked for.

States of a connection: accepted -> (Hello) -> welcome -> closed. States of the server: recovering (after a start that
finds pages of living replicas: no grants until all have announced, or 500 ms have passed and none of the others is in
a turn; a turn that outlives an allocator goes on to its end) -> serving -> closed.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from deployments.runtime.lease_page import LeasePage, open_page_of_living_replica, pages_of_living_replicas
from deployments.runtime.messages import (
    PROTOCOL_VERSION,
    Announce,
    Cancel,
    Finish,
    Grant,
    Hello,
    Record,
    Refused,
    Rejected,
    Slice,
    Submit,
    ToAllocator,
    ToReplica,
    Welcome,
    Yield,
    decode_to_allocator,
)
from deployments.runtime.replica_connection import ReplicaConnection
from deployments.runtime.settings import DeviceSettings
from deployments.runtime.slice_log import SliceLog
from deployments.runtime.transport import PacketListener
from deployments.scheduling.decision import Decision
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.errors import NotHolderError, SchedulingError, UnknownRequestError
from deployments.scheduling.policies.table import make_policy
from deployments.scheduling.request import RequestId

logger = logging.getLogger(__name__)

RECOVERY_S = 0.5
HANDOVER_S = 0.0003
"""What a hand-over costs (``benchmarks.lease``); decides where a preemption pays in mode dlir."""

SOCKET_FILE = "allocator.sock"


class _Lease:
    """A lease that is out."""

    def __init__(self, number: int, replica: ReplicaConnection, granted_s: float) -> None:
        self.number = number
        self.replica = replica
        self.last_boundary_s = granted_s
        self.is_reported = False


class AllocatorServer:
    """Grants turns on one device to the replicas that connect to its socket."""

    def __init__(
        self,
        *,
        settings: DeviceSettings,
        folder: Path,
        on_idle: Callable[[], None] | None = None,
        idle_s: float = 10.0,
    ) -> None:
        """Start to listen and serve.

        Args:
            settings: The device's settings; replicas that state others are refused.
            folder: Private folder of this device for the socket and the lease pages; created if missing.
            on_idle: Called once, on the server's thread, when nobody was connected for ``idle_s`` seconds.
            idle_s: See ``on_idle``.
        """
        self.settings = settings
        self.slices = SliceLog()
        self.socket_path = folder / SOCKET_FILE
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sharing = settings.sharing
        self._unannounced = pages_of_living_replicas(folder)
        self._core = DeviceAllocator(
            policy=make_policy(sharing.policy, settings.policy_options),
            exclusive=sharing.exclusive,
            preemption=sharing.preemption,
            max_waiting=settings.max_waiting,
            handover_s=HANDOVER_S,
            recovering=bool(self._unannounced),
        )
        now_s = time.monotonic()
        self._recovery_ends_s = now_s + RECOVERY_S if self._unannounced else None
        self._replicas: dict[str, ReplicaConnection] = {}
        self._leases: dict[RequestId, _Lease] = {}
        self._num_leases = time.monotonic_ns() // 1_000_000 if self._unannounced else 0
        self._look_again_s: float | None = None
        self._on_idle, self._idle_s, self._idle_since_s = on_idle, idle_s, now_s
        self._lock = threading.Lock()  # held while an event is handled, so that snapshots see whole states
        self._is_closing = False
        self._listener = PacketListener(self.socket_path)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._watch(self._listener.fileno(), lambda _mask: self._accept())
        self._watch(self._wake_reader.fileno(), lambda _mask: None)
        self._thread = threading.Thread(target=self._serve, name=f"allocator-{settings.device}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving and remove the socket; replicas notice at once."""
        self._is_closing = True
        self._wake_writer.send(b"x")
        self._thread.join()

    # --- read by other threads

    def slices_since(self, num_seen: int) -> list[Slice]:
        """Recorded turns after the first ``num_seen``."""
        with self._lock:
            return self.slices.since(num_seen)

    def status(self) -> dict[str, object]:
        """What the device does right now, as plain values for a page or a test."""
        with self._lock:
            now_s = time.monotonic()
            self._read_pages(now_s)
            snapshot = self._core.snapshot(now_s)
            return {
                "device": self.settings.device,
                "mode": self.settings.mode,
                "pid": os.getpid(),
                "now_s": now_s,
                "replicas": [{"model": r.hello.model, "pid": r.hello.pid} for r in self._replicas.values() if r.hello],
                "snapshot": msgspec.to_builtins(snapshot),
                "num_slices": self.slices.num_recorded,
                "busy_s": self.slices.busy_s,
            }

    # --- the thread

    def _serve(self) -> None:
        while not self._is_closing:
            events = self._poll.poll(self._timeout_ms(time.monotonic()))
            with self._lock:
                for descriptor, mask in events:
                    if (handler := self._handlers.get(descriptor)) is not None:
                        handler(mask)
                self._handle_time(time.monotonic())
        for replica in list(self._replicas.values()):
            replica.close()
        self._listener.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def _timeout_ms(self, now_s: float) -> float | None:
        limit_s = self.settings.lease_limit_s
        times = [lease.last_boundary_s + limit_s for lease in self._leases.values() if not lease.is_reported]
        times += [t for t in (self._look_again_s, self._recovery_ends_s) if t is not None]
        if self._on_idle is not None and not self._replicas:
            times.append(self._idle_since_s + self._idle_s)
        return max(min(times) - now_s, 0.0) * 1e3 if times else None

    def _handle_time(self, now_s: float) -> None:
        if self._recovery_ends_s is not None and now_s >= self._recovery_ends_s:
            self._try_end_recovery(now_s)
        if self._look_again_s is not None and now_s >= self._look_again_s:
            self._read_pages(now_s)
            self._carry_out(self._core.on_timer(now_s), now_s)
        self._report_overdue(now_s)
        if self._on_idle is not None and not self._replicas and now_s >= self._idle_since_s + self._idle_s:
            on_idle, self._on_idle = self._on_idle, None
            on_idle()

    def _report_overdue(self, now_s: float) -> None:
        for request_id, lease in self._leases.items():
            if lease.is_reported or now_s < lease.last_boundary_s + self.settings.lease_limit_s:
                continue
            page = lease.replica.page
            if page is not None and (progress := page.progress) is not None and progress.lease == lease.number:
                lease.last_boundary_s = max(lease.last_boundary_s, progress.boundary_s)
            if page is not None and now_s >= lease.last_boundary_s + self.settings.lease_limit_s:
                lease.is_reported = True
                page.mark_overdue(lease.number)
                logger.error(
                    "request %s has held %s for over %.1f s without a boundary; its replica (pid %d) is to be replaced",
                    request_id,
                    self.settings.device,
                    self.settings.lease_limit_s,
                    page.pid,
                )

    # --- connections

    def _watch(self, descriptor: int, handler: Callable[[int], None]) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.POLLIN)

    def _accept(self) -> None:
        replica = ReplicaConnection(self._listener.accept())
        self._watch(replica.fileno(), lambda mask: self._on_ready(replica, mask))

    def _on_ready(self, replica: ReplicaConnection, mask: int) -> None:
        if mask & select.POLLOUT:
            self._watch_for_room(replica, not replica.flush())
        if mask & ~select.POLLOUT:
            self._receive_all(replica)

    def _receive_all(self, replica: ReplicaConnection) -> None:
        while True:
            try:
                packet = replica.receive()
            except BlockingIOError:
                return
            if packet is None:
                self._drop(replica)
                return
            now_s = time.monotonic()
            try:
                message = decode_to_allocator(packet)
            except msgspec.DecodeError as error:
                logger.error("a replica sent a broken packet (%s): its connection is closed", error)
                self._drop(replica)
                return
            if isinstance(message, Submit | Cancel):  # the others say themselves where the holder stands
                self._read_pages(now_s)
            self._handle(replica, message, now_s)
            if replica.fileno() < 0:
                return

    def _drop(self, replica: ReplicaConnection) -> None:
        self._poll.unregister(replica.fileno())
        del self._handlers[replica.fileno()]
        replica.close()
        hello = replica.hello
        if hello is None or self._replicas.get(hello.owner) is not replica:
            return
        now_s = time.monotonic()
        del self._replicas[hello.owner]
        self._idle_since_s = now_s
        for request_id in [r for r, lease in self._leases.items() if lease.replica is replica]:
            del self._leases[request_id]
        if replica.page is not None:
            replica.page.close(unlink=True)
        self._carry_out(self._core.forget_owner(hello.owner, now_s), now_s)

    # --- messages

    def _handle(self, replica: ReplicaConnection, message: ToAllocator, now_s: float) -> None:
        if isinstance(message, Hello):
            self._on_hello(replica, message, now_s)
            return
        if replica.hello is None:
            logger.error("a connection sent %s before Hello and is closed", type(message).__name__)
            self._drop(replica)
            return
        try:
            match message:
                case Submit(request=request):
                    decision = self._core.submit(request, now_s)
                case Announce(request=request, blocks_done=blocks_done):
                    decision = self._core.announce(request, blocks_done=blocks_done, is_holding=False, now_s=now_s)
                    replica.num_to_announce -= 1
                case Yield(request_id=request_id, blocks_done=blocks_done):
                    self._leases.pop(request_id, None)
                    decision = self._core.yield_at_boundary(request_id, blocks_done=blocks_done, now_s=now_s)
                case Finish(request_id=request_id):
                    self._leases.pop(request_id, None)
                    decision = self._core.finish(request_id, now_s)
                case Record(turn=turn):
                    self.slices.record(turn)
                    return
                case Cancel(request_id=request_id):
                    decision = self._core.cancel(request_id, now_s)
        except (UnknownRequestError, NotHolderError):
            if not isinstance(message, Cancel):  # a cancel may cross the finish on its way
                logger.exception("message out of turn from %s", replica.hello.owner)
            return
        except SchedulingError as error:
            if isinstance(message, Submit):
                self._reject(replica, message.request.request_id, error)
            else:
                logger.exception("message out of turn from %s", replica.hello.owner)
            return
        self._carry_out(decision, now_s)
        if isinstance(message, Announce):
            self._on_announced(replica, now_s)

    def _on_hello(self, replica: ReplicaConnection, hello: Hello, now_s: float) -> None:
        refusal = None
        if hello.version != PROTOCOL_VERSION:
            refusal = Refused(
                reason="version",
                message=f"the allocator speaks version {PROTOCOL_VERSION}, the replica version {hello.version}: "
                "stop the old cluster first",
            )
        elif hello.settings != self.settings:
            refusal = Refused(
                reason="settings",
                message=f"model {hello.model!r} states other settings for device {self.settings.device} than the "
                f"models that are there: {hello.settings.differences(self.settings)}. State them once for all models "
                "of a device; to change them, stop the models of the device first",
            )
        if refusal is not None:
            self._send(replica, refusal)
            self._drop(replica)
            return
        replica.hello = hello
        replica.page = LeasePage(self._folder / hello.page, create=False)
        self._replicas[hello.owner] = replica
        self._send(replica, Welcome(owner=hello.owner))
        replica.num_to_announce = hello.num_announced
        self._on_announced(replica, now_s)

    def _on_announced(self, replica: ReplicaConnection, now_s: float) -> None:
        """End the recovery once every known replica has said what waits."""
        if replica.num_to_announce == 0 and replica.hello is not None:
            self._unannounced.discard(replica.hello.page)
            if self._recovery_ends_s is not None and not self._unannounced:
                self._try_end_recovery(now_s)

    def _try_end_recovery(self, now_s: float) -> None:
        """Start to grant, unless a replica that has not announced is in a turn; then look again later."""
        for name in list(self._unannounced):
            page = open_page_of_living_replica(self._folder / name)
            if page is None:
                self._unannounced.discard(name)
                continue
            is_in_turn = page.progress is not None
            page.close()
            if is_in_turn:
                self._recovery_ends_s = now_s + RECOVERY_S / 10
                return
        self._recovery_ends_s = None
        self._carry_out(self._core.resume(now_s), now_s)

    # --- decisions

    def _read_pages(self, now_s: float) -> None:
        for request_id, lease in self._leases.items():
            page = lease.replica.page
            if page is not None and (progress := page.progress) is not None and progress.lease == lease.number:
                self._core.progress(request_id, progress.blocks_done, progress.boundary_s, now_s)

    def _carry_out(self, decision: Decision, now_s: float) -> None:
        self._look_again_s = decision.look_again_s
        for refusal in decision.refused:
            self._reject(self._replicas[refusal.request.owner], refusal.request.request_id, refusal.error)
        for request in decision.grants:
            replica = self._replicas[request.owner]
            self._num_leases += 1
            self._leases[request.request_id] = _Lease(self._num_leases, replica, now_s)
            self._send(replica, Grant(request_id=request.request_id, lease=self._num_leases))
        if decision.revoke is not None and (lease := self._leases.get(decision.revoke)) and lease.replica.page:
            lease.replica.page.revoke(lease.number)
        if decision.keep is not None and (lease := self._leases.get(decision.keep)) and lease.replica.page:
            lease.replica.page.keep()

    def _reject(self, replica: ReplicaConnection, request_id: RequestId, error: SchedulingError) -> None:
        self._send(replica, Rejected(request_id=request_id, error=type(error).__name__, error_args=error.args))

    def _send(self, replica: ReplicaConnection, message: ToReplica) -> None:
        self._watch_for_room(replica, not replica.send(message))

    def _watch_for_room(self, replica: ReplicaConnection, is_needed: bool) -> None:
        if is_needed != replica.is_watched_for_room:
            replica.is_watched_for_room = is_needed
            self._poll.modify(replica.fileno(), select.POLLIN | select.POLLOUT if is_needed else select.POLLIN)
