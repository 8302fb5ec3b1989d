"""One thread that carries out what the scheduling core of one device decides.

It owns the socket, the clock and the lease pages; the core (``DeviceAllocator``) owns every decision. Nothing here
spins: the thread sleeps in poll(2) until a packet arrives or a time that the core or a lease has asked for.

States of a connection: accepted -> (Hello) -> welcome -> closed. States of the server: recovering (``recovery.py``) ->
serving -> closed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from deployments.runtime import memory_budget
from deployments.runtime.claims import Claims
from deployments.runtime.connections import Connections
from deployments.runtime.device_page import DevicePage
from deployments.runtime.lease_page import LeasePage
from deployments.runtime.leases import Leases
from deployments.runtime.messages import (
    Announce,
    Cancel,
    Claim,
    Finish,
    Grant,
    Hello,
    InForce,
    Rejected,
    Slice,
    Submit,
    ToAllocator,
    Undelivered,
    Welcome,
    Yield,
    decode_to_allocator,
)
from deployments.runtime.queue_page import QueuePage
from deployments.runtime.recovery import Recovery
from deployments.runtime.replica_connection import ReplicaConnection
from deployments.runtime.rules import rules_of
from deployments.runtime.settings import DeviceSettings
from deployments.runtime.turn_records import TurnRecords
from deployments.scheduling.decision import Decision
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.errors import NotHolderError, SchedulingError, UnknownRequestError
from deployments.scheduling.explanation import Explanation
from deployments.scheduling.request import Request, RequestId

logger = logging.getLogger(__name__)

HANDOVER_S = 0.0003
"""What a hand-over costs (``benchmarks.lease``); decides where a preemption pays in mode dlir."""

SOCKET_FILE = "allocator.sock"


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
        self._claims = Claims(settings)
        self._budget_bytes = memory_budget.budget_bytes(settings)
        self.socket_path = folder / SOCKET_FILE
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._device_page = DevicePage(folder)
        self._device_page.is_free = False
        now_s = time.monotonic()
        self._recovery = Recovery(folder, now_s)
        self._queue_page = QueuePage(folder, settings)
        self._core = DeviceAllocator(
            handover_s=HANDOVER_S,
            recovering=self._recovery.ends_s is not None,
            watcher=self._queue_page,
            **rules_of(settings),
        )
        self._replicas: dict[str, ReplicaConnection] = {}
        self._leases = Leases()
        self._look_again_s: float | None = None
        self._on_idle, self._idle_s, self._idle_since_s = on_idle, idle_s, now_s
        self._lock = threading.Lock()  # held while an event is handled, so that snapshots see whole states
        self._records = TurnRecords(self._lock)
        self._is_closing = False
        self._connections = Connections(self.socket_path, on_packet=self._on_packet, on_lost=self._on_lost)
        self._note_state(now_s)
        self._thread = threading.Thread(target=self._serve, name=f"allocator-{settings.device}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving and remove the socket; replicas notice at once."""
        self._is_closing = True
        self._connections.wake()
        self._thread.join()
        self._connections.close()

    # --- read by other threads

    def slices_since(self, num_seen: int) -> list[Slice]:
        """Recorded turns after the first ``num_seen``."""
        with self._lock:
            return self._records.slices.since(num_seen)

    def explain(self, request: Request) -> Explanation:
        """See ``TurnRecords.explain``."""
        return self._records.explain(request)

    def status(self) -> dict[str, object]:
        """What the device does right now, as plain values for a page or a test."""
        with self._lock:
            now_s = time.monotonic()
            self._read_pages(now_s)
            snapshot = self._core.snapshot(now_s)
            return {
                "device": self.settings.device,
                "mode": self.settings.mode,
                "settings": msgspec.to_builtins(self.settings),
                "conflict": self._claims.conflict,
                "pid": os.getpid(),
                "now_s": now_s,
                "memory_bytes": self._budget_bytes,
                "replicas": [
                    {"model": r.hello.model, "pid": r.hello.pid, "memory_bytes": r.hello.memory_bytes}
                    for r in self._replicas.values()
                    if r.hello
                ],
                "snapshot": msgspec.to_builtins(snapshot),
                "num_slices": self._records.slices.num_recorded,
                "busy_s": self._records.slices.busy_s,
            }

    # --- the thread

    def _serve(self) -> None:
        if hasattr(os, "SCHED_BATCH"):
            # The next holder knows already, or has taken the device itself: this thread need not push aside whoever has
            # just told it something, while a client or a device waits for that one.
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # 0: this thread
        while not self._is_closing:
            events = self._connections.wait(self._timeout_ms(time.monotonic()))
            with self._lock:
                self._connections.handle(events)
                self._handle_time(time.monotonic())
        self._connections.hang_up()
        self._device_page.close()
        self._queue_page.close()

    def _timeout_ms(self, now_s: float) -> float | None:
        limit_s = self.settings.lease_limit_s
        times = [lease.last_boundary_s + limit_s for _, lease in self._leases if not lease.is_reported]
        times += [t for t in (self._look_again_s, self._recovery.ends_s) if t is not None]
        if self._on_idle is not None and not self._replicas:
            times.append(self._idle_since_s + self._idle_s)
        return max(min(times) - now_s, 0.0) * 1e3 if times else None

    def _handle_time(self, now_s: float) -> None:
        if self._recovery.ends_s is not None and now_s >= self._recovery.ends_s and self._recovery.is_over(now_s):
            self._carry_out(self._core.resume(now_s), now_s)
        if self._look_again_s is not None and now_s >= self._look_again_s:
            self._read_pages(now_s)
            self._carry_out(self._core.on_timer(now_s), now_s)
        for request_id, page in self._leases.find_overdue(self.settings.lease_limit_s, now_s):
            logger.error(
                "request %s has held %s for over %.1f s without a boundary; its replica (pid %d) is to be replaced",
                request_id,
                self.settings.device,
                self.settings.lease_limit_s,
                page.pid,
            )
        if self._on_idle is not None and not self._replicas and now_s >= self._idle_since_s + self._idle_s:
            on_idle, self._on_idle = self._on_idle, None
            on_idle()

    # --- messages

    def _on_packet(self, replica: ReplicaConnection, packet: bytes) -> None:
        try:
            message = decode_to_allocator(packet)
        except msgspec.DecodeError as error:
            logger.error("a replica sent a broken packet (%s): its connection is closed", error)
            self._connections.drop(replica)
            return
        now_s = time.monotonic()
        if isinstance(message, Submit | Cancel):  # the others say themselves where the holder stands
            self._read_pages(now_s)
        self._handle(replica, message, now_s)

    def _on_lost(self, replica: ReplicaConnection) -> None:
        hello = replica.hello
        if hello is None or self._replicas.get(hello.owner) is not replica:
            return
        now_s = time.monotonic()
        del self._replicas[hello.owner]
        self._idle_since_s = now_s
        self._leases.forget(replica)
        if replica.page is not None:
            replica.page.close(unlink=True)
        self._carry_out(self._core.forget_owner(hello.owner, now_s), now_s)
        self._claims.forget(hello.owner)
        self._adopt_claims(now_s)

    def _handle(self, replica: ReplicaConnection, message: ToAllocator, now_s: float) -> None:
        if isinstance(message, Hello):
            self._on_hello(replica, message, now_s)
            return
        if replica.hello is None:
            logger.error("a connection sent %s before Hello and is closed", type(message).__name__)
            self._connections.drop(replica)
            return
        try:
            match message:
                case Submit(request=request, taken_lease=taken_lease):
                    if request.first_block:
                        self._hear_of_earlier_stay(request)
                    if taken_lease is not None:
                        self._leases.open(request.request_id, replica, now_s, taken_lease)
                    decision = self._core.submit(request, now_s)
                    if taken_lease is not None and replica.page and self._core.is_waiting(request.request_id):
                        replica.page.revoke(taken_lease)  # another was granted the device at the same moment
                case Announce(request=request, blocks_done=blocks_done):
                    decision = self._core.announce(request, blocks_done=blocks_done, is_holding=False, now_s=now_s)
                    replica.num_to_announce -= 1
                case Yield() | Finish():
                    if message.turn is not None:
                        self._records.record(message.turn)
                    decision = self._end_turn(message, now_s)
                case Undelivered(lease=lease):
                    self._tell_of_lease(lease)
                    return
                case Claim(settings=settings):
                    self._claims.claim(replica.hello.owner, settings)
                    self._adopt_claims(now_s)
                    return
                case Cancel(request_id=request_id):
                    decision = self._core.cancel(request_id, now_s)
        except (UnknownRequestError, NotHolderError):
            return  # old news: messages of several replicas cross, and a cancel may cross the finish
        except SchedulingError as error:
            if isinstance(message, Submit):
                self._reject(replica, message.request.request_id, error)
            else:
                logger.exception("message out of turn from %s", replica.hello.owner)
            return
        self._carry_out(decision, now_s)
        if isinstance(message, Announce):
            self._on_announced(replica, now_s)

    def _hear_of_earlier_stay(self, request: Request) -> None:
        """A request goes on in another replica: the end of its stay before has been told, but may not be heard yet."""
        earlier = self._core.request(request.request_id)
        replica = None if earlier is None else self._replicas.get(earlier.owner)
        if replica is not None and earlier is not None and earlier.owner != request.owner:
            self._connections.receive_all(replica)

    def _on_hello(self, replica: ReplicaConnection, hello: Hello, now_s: float) -> None:
        present = [each.hello for each in self._replicas.values() if each.hello]
        refusal = self._claims.refusal(hello) or memory_budget.refusal(hello, present, self._budget_bytes)
        if refusal is not None:
            self._connections.send(replica, refusal)
            self._connections.drop(replica)
            return
        replica.hello = hello
        replica.page = LeasePage(self._folder / hello.page, create=False)
        self._replicas[hello.owner] = replica
        self._connections.send(replica, Welcome(owner=hello.owner, settings=self.settings))
        self._claims.claim(hello.owner, hello.claim)
        self._adopt_claims(now_s)
        replica.num_to_announce = hello.num_announced
        self._on_announced(replica, now_s)

    def _on_announced(self, replica: ReplicaConnection, now_s: float) -> None:
        if replica.num_to_announce or replica.hello is None:
            return
        if self._recovery.announced(replica.hello.page, now_s):
            self._carry_out(self._core.resume(now_s), now_s)

    # --- decisions

    def _read_pages(self, now_s: float) -> None:
        for request_id, progress in self._leases.progress():
            self._core.progress(request_id, progress.blocks_done, progress.boundary_s, now_s)

    def _end_turn(self, message: Yield | Finish, now_s: float) -> Decision:
        """The device is the next one's, whom the holder may have told already."""
        request_id = message.request_id
        if not self._leases.close(request_id, message.lease) or self._core.is_waiting(request_id):
            return self._end_unknown_turn(message, now_s)
        told = self._leases.take_offer(message.passed_lease)
        successor = None
        if told is not None and self._core.is_waiting(told.request_id):
            successor = told.request_id
            self._leases.open(successor, self._replicas[told.owner], now_s, message.passed_lease)
        if isinstance(message, Finish):
            self._keep_notes(request_id)
            return self._core.finish(request_id, now_s, successor=successor)
        return self._core.yield_at_boundary(
            request_id, blocks_done=message.blocks_done, now_s=now_s, successor=successor
        )

    def _keep_notes(self, request_id: RequestId) -> None:
        request, notes = self._core.request(request_id), self._core.notes(request_id)
        if request is not None and notes is not None:
            self._records.keep_notes(request, notes)

    def _tell_of_lease(self, number: int) -> None:
        """Tell the one to whom the last holder could not pass the device on."""
        for request_id, lease in self._leases:
            if lease.number == number:
                self._connections.send(lease.replica, Grant(request_id=request_id, lease=number))

    def _end_unknown_turn(self, message: Yield | Finish, now_s: float) -> Decision:
        """A turn has ended whose beginning is not known: its request waits, or has got another lease meanwhile.

        In the second case that lease is on its way, and will be ended by the replica like any other.

        Raises:
            NotHolderError: In the second case.
        """
        request_id = message.request_id
        if not self._core.is_waiting(request_id):
            raise NotHolderError(request_id, ())
        if isinstance(message, Finish):
            return self._core.cancel(request_id, now_s)
        return self._core.restate(request_id, blocks_done=message.blocks_done, now_s=now_s)

    def _carry_out(self, decision: Decision, now_s: float) -> None:
        self._look_again_s = decision.look_again_s
        self._note_state(now_s)  # before anybody is told
        for refusal in decision.refused:
            self._reject(self._replicas[refusal.request.owner], refusal.request.request_id, refusal.error)
        for request in decision.grants:
            if self._leases.get(request.request_id) is not None:  # it knows already
                continue
            replica = self._replicas[request.owner]
            lease = self._leases.open(request.request_id, replica, now_s)
            grant = Grant(
                request_id=request.request_id, lease=lease.number, is_exclusive=self.settings.sharing.exclusive
            )
            self._connections.send(replica, grant)
        if (revoked := self._leases.get(decision.revoke)) is not None and revoked.replica.page:
            revoked.replica.page.revoke(revoked.number)
        if (kept := self._leases.get(decision.keep)) is not None and kept.replica.page:
            kept.replica.page.keep()
        self._offer_successor(now_s)

    def _note_state(self, now_s: float) -> None:
        """Let replicas take the device without asking while nobody has it, unless requests may be refused."""
        self._device_page.is_free = self._core.is_free
        self._queue_page.tell(self._core, now_s)

    def _offer_successor(self, now_s: float) -> None:
        """Name who comes after the holder, anew after every event: the device idles until that one knows."""
        holder, successor = self._core.holder, self._core.successor(now_s)
        replica = None if successor is None else self._replicas.get(successor.owner)
        self._leases.offer(None if holder is None else holder.request_id, successor, replica)

    def _adopt_claims(self, now_s: float) -> None:
        """Put into force what the replicas claim, and tell all of them."""
        if conflict := self._claims.conflict:
            logger.error("%s keeps its settings: %s", self.settings.device, conflict)
        if self._claims.in_force == self.settings:
            return
        self.settings = settings = self._claims.in_force
        self._queue_page.tell_settings(settings)
        for replica in self._replicas.values():
            self._connections.send(replica, InForce(settings=settings))
        self._carry_out(self._core.reconfigure(now_s=now_s, **rules_of(settings)), now_s)

    def _reject(self, replica: ReplicaConnection, request_id: RequestId, error: SchedulingError) -> None:
        self._connections.send(
            replica, Rejected(request_id=request_id, error=type(error).__name__, error_args=error.args)
        )
