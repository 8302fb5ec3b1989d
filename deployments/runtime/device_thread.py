"""The thread of a replica that runs blocks while it holds the device.

It is the only thread that waits for the allocator and the only one that runs blocks. Requests come in from any
thread; answers go out through a callback. A request is *waiting* (in ``_jobs``, known to the allocator) until a grant
comes, then in a *turn*; after the turn it is waiting again (yielded at a boundary) or answered. A grant comes from the
allocator, from the replica whose turn has just ended, or from this replica itself where the device was free; the last
two lie in the mailbox. If the allocator dies, a turn goes on to its end; then the thread connects to the restarted one
and announces what waits.

One lock guards all of it, which is why it is one file of over 400 lines; what needs no lock is in ``jobs.py``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from deployments.runtime.backends.interface import LoadedBlocks
from deployments.runtime.block_times import BlockTimes
from deployments.runtime.copies import Copies
from deployments.runtime.device_page import DevicePage
from deployments.runtime.errors import (
    AllocatorUnreachableError,
    LeaseOverdueError,
    ProtocolMismatchError,
    ReplicaClosedError,
)
from deployments.runtime.jobs import BlockRunner, Job, Result, TurnEnd
from deployments.runtime.messages import (
    PROTOCOL_VERSION,
    Announce,
    Cancel,
    Claim,
    Finish,
    Grant,
    Hello,
    InForce,
    Refused,
    Rejected,
    Submit,
    ToAllocator,
    ToReplica,
    Undelivered,
    Welcome,
    decode_to_replica,
    encode,
    next_lease,
)
from deployments.runtime.refusals import error_of_replica, error_of_request
from deployments.runtime.replica_files import ReplicaFiles
from deployments.runtime.settings import DeviceSettings
from deployments.runtime.transport import PacketSocket, connect
from deployments.runtime.turn_ends import TurnEnds
from deployments.scheduling.request import Request, RequestId

logger = logging.getLogger(__name__)

_RECONNECT_S = 0.05
_CONNECT_LIMIT_S = 30.0


class DeviceThread:
    """Runs the requests of one model's replica in the turns that the device's allocator grants."""

    def __init__(
        self,
        *,
        model: str,
        load: Callable[[], LoadedBlocks[Any]],
        memory_bytes: int = 0,
        block_times: BlockTimes,
        settings: DeviceSettings,
        find_socket: Callable[[], Path],
        claim: DeviceSettings | None = None,
        on_settings: Callable[[DeviceSettings], None] = lambda _settings: None,
    ) -> None:
        """Connect to the allocator, load the blocks and start the thread.

        Args:
            model: Name of the model.
            load: Loads its blocks, once the allocator has kept the memory for them: those that requests want
                (``Request.first_block``), counted from there; they are closed with the thread.
            memory_bytes: Device memory that they will take.
            block_times: Where measured times go.
            settings: The device's settings, which the allocator must share.
            find_socket: Gives the path of the allocator's socket and starts the allocator where there is none; may
                block; called again after a connection was lost.
            claim: Settings that the replica wants instead of ``settings``, if all others that want any agree.
            on_settings: Told the settings that are in force, on this thread (at first on the caller's); must be quick.

        Raises:
            SettingsConflictError: If other replicas of the device state other settings.
            MemoryBudgetError: If the blocks do not fit into what is left of the device's memory.
            AllocatorUnreachableError: If no allocator answers within 30 s.
            ProtocolMismatchError: If it speaks another version.
        """
        self.owner = f"{model}/{uuid4().hex[:12]}"
        self._model = model
        self._memory_bytes = memory_bytes
        self._settings = settings
        self._find_socket = find_socket
        self._claim = claim
        self._on_settings = on_settings
        self._lock = threading.Lock()  # guards _jobs, _connection and the order of sends
        self._jobs: dict[RequestId, Job] = {}
        self._connection: PacketSocket | None = None
        self._files: ReplicaFiles | None = None
        self._num_open_turns = 0  # begun, or taken by ``submit``, and not told to be over
        self._last_lease = 0
        self._is_closing = False
        self._failure: Exception | None = None
        try:
            self._connect(time.monotonic() + _CONNECT_LIMIT_S)
            self._blocks = BlockRunner(model, load(), block_times, lambda: self._is_closing)
        except Exception:
            self._close_connection()
            self._close_files()
            raise
        self._turn_ends = TurnEnds(self._tell_of_turn, name=f"turn-ends-{settings.device}")
        self._thread = threading.Thread(target=self._serve, name=f"device-{settings.device}", daemon=True)
        self._thread.start()

    # --- called by other threads

    def submit(
        self,
        request: Request,
        inputs: Mapping[str, np.ndarray],
        on_result: Callable[[Result], None],
        *,
        on_block: Callable[[float], None] | None = None,
    ) -> None:
        """Queue a request; ``on_result`` is called exactly once, on another thread, unless it is cancelled.

        Args:
            request: What the allocator sees; its ``owner`` is this thread's.
            inputs: Arrays by name, as the model takes them; not changed, and not to be changed until the answer.
            on_result: Takes the outputs by name, or the error.
            on_block: Told, on the device thread, how long each block took, in seconds.

        Raises:
            ReplicaClosedError: If the thread has been closed.
        """
        with self._lock:
            if self._is_closing:
                raise ReplicaClosedError(f"the replica of {self._model!r} is shutting down: send the request again")
            self._jobs[request.request_id] = job = Job(request, inputs, on_result, on_block)
            self._try_take_free_device(job)
            self._try_send(Submit(request=request, taken_lease=self._last_lease if job.is_in_turn else None))

    def _try_take_free_device(self, job: Job) -> None:
        """Take a turn without asking if the device is free; under the lock. The turn begins on the thread, at once."""
        if self._connection is None or self._files is None:
            return
        _, mailbox, device = self._files
        if self._num_open_turns or not device.is_free or not device.try_take_turn():
            return
        self._last_lease = lease = next_lease(self._last_lease)
        job.is_in_turn, self._num_open_turns = True, 1
        grant = Grant(request_id=job.request.request_id, lease=lease)
        if not device.is_free or not mailbox.try_send(os.fsencode(mailbox.path), encode(grant)):
            job.is_in_turn, self._num_open_turns = False, 0
            device.end_turn()

    def claim(self, settings: DeviceSettings | None) -> None:
        """Want other settings of the device, or none in particular any more; see ``claims.py``."""
        with self._lock:
            self._claim = settings
            self._try_send(Claim(settings=settings))

    @property
    def copies(self) -> Copies:
        """What requests have sent to the device and got back."""
        return self._blocks.copies

    @property
    def num_unanswered(self) -> int:
        """Requests that wait or run."""
        return len(self._jobs)

    def cancel(self, request_id: RequestId) -> None:
        """Forget a request: at once while it waits, at the next boundary while it runs. Unknown ids are ignored."""
        with self._lock:
            job = self._jobs.get(request_id)
            if job is None:
                return
            job.is_cancelled = True
            if not job.is_in_turn:
                del self._jobs[request_id]
                self._try_send(Cancel(request_id=request_id))

    def check_health(self) -> None:
        """Raise if Serve should replace this replica.

        Raises:
            LeaseOverdueError: If the current turn lasts longer than a lease may.
            AllocatorUnreachableError: If the thread has given up.
        """
        page = None if self._files is None else self._files.page
        if page is not None and (overdue := page.overdue_lease) is not None:
            progress = page.progress
            if progress is not None and progress.lease == overdue:
                raise LeaseOverdueError(
                    f"a block of {self._model!r} has run for over {self._settings.lease_limit_s} s on "
                    f"{self._settings.device}: the replica is replaced; raise lease_limit_s if the block is that long"
                )
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Answer all requests with ``ReplicaClosedError`` and end the thread, at the latest at the next boundary."""
        with self._lock:
            self._is_closing = True
            if self._connection is not None:
                self._connection.shut_down()
        self._thread.join()
        self._close_files()
        self._blocks.close()

    def _close_files(self) -> None:
        if self._files is not None:
            self._files.close()
            self._files = None

    # --- the connection

    def _connect(self, give_up_s: float) -> None:
        """Say Hello to the allocator, again and again until it answers."""
        while True:
            try:
                path = self._find_socket()
                connection = connect(path)
            except Exception as error:
                if self._is_closing:
                    return
                if time.monotonic() > give_up_s:
                    raise AllocatorUnreachableError(
                        f"no allocator answers for device {self._settings.device}: {error}"
                    ) from error
                time.sleep(_RECONNECT_S)
                continue
            with self._lock:
                if self._is_closing:
                    connection.close()
                    return
                self._connection = connection
                self._say_hello(path.parent)
            if self._is_welcome(connection):
                return
            self._close_connection()

    def _say_hello(self, folder: Path) -> None:
        if self._files is None or not self._files.page.path.exists():
            self._close_files()
            self._num_open_turns = 0
            for job in self._jobs.values():
                job.is_in_turn = False  # its grant lay in the mailbox
            self._files = ReplicaFiles.create(folder)
        waiting = [job for job in self._jobs.values() if not job.is_in_turn]
        self._try_send(
            Hello(
                version=PROTOCOL_VERSION,
                owner=self.owner,
                model=self._model,
                pid=os.getpid(),
                page=self._files.page.path.name,
                settings=self._settings,
                claim=self._claim,
                memory_bytes=self._memory_bytes,
                num_announced=len(waiting),
            )
        )
        for job in waiting:
            self._try_send(Announce(request=job.request, blocks_done=job.blocks_done))

    def _is_welcome(self, connection: PacketSocket) -> bool:
        packet = connection.receive()
        if packet is None:
            return False
        answer = decode_to_replica(packet)
        if isinstance(answer, Refused):
            self._close_connection()
            raise error_of_replica(answer)
        assert isinstance(answer, Welcome)
        self._on_settings(answer.settings)
        return True

    def _try_send(self, message: ToAllocator) -> None:
        """Send under the lock. Without a connection the message is not needed: Hello will tell all that waits."""
        if self._connection is None:
            return
        with contextlib.suppress(OSError):
            self._connection.send(encode(message))

    # --- the thread

    def _serve(self) -> None:
        if self._settings.cores is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self._settings.cores)  # 0: this thread
        try:
            while not self._is_closing:
                self._serve_connection()
                self._close_connection()
                self._turn_ends.wait()  # what waits afterwards is announced
                if not self._is_closing:
                    logger.warning("the allocator of %s is gone; reconnecting", self._settings.device)
                    self._connect(time.monotonic() + _CONNECT_LIMIT_S)
        except Exception as error:
            logger.exception("the device thread of %r ends", self._model)
            self._failure = error
        self._turn_ends.close()
        self._close_connection()
        with self._lock:
            self._is_closing = True
            jobs, self._jobs = list(self._jobs.values()), {}
        reason = self._failure or ReplicaClosedError(
            f"the replica of {self._model!r} shut down before the request had run: send it again"
        )
        for job in jobs:
            job.on_result(reason)

    def _close_connection(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _serve_connection(self) -> None:
        """Carry out grants until the allocator is gone."""
        connection, files = self._connection, self._files
        if connection is None or files is None:
            return
        mailbox = files.mailbox
        poll = select.poll()
        poll.register(mailbox, select.POLLIN)  # first: a grant is to be seen before the end of the connection
        poll.register(connection, select.POLLIN)
        mailbox_descriptor = mailbox.fileno()
        while not self._is_closing:
            for descriptor, _ in poll.poll():
                is_grant = descriptor == mailbox_descriptor
                packet = mailbox.take() if is_grant else connection.receive()
                if packet is not None:
                    self._handle(decode_to_replica(packet))
                elif not is_grant:
                    return

    def _handle(self, message: ToReplica) -> None:
        match message:
            case Grant() as grant:
                self._run_turn(grant)
            case Rejected() as rejected:
                self._reject(rejected)
            case InForce(settings=settings):
                self._on_settings(settings)
            case other:
                raise ProtocolMismatchError(f"unexpected message {other!r} from the allocator")

    def _reject(self, rejected: Rejected) -> None:
        with self._lock:
            job = self._jobs.get(rejected.request_id)
            if job is None or job.is_in_turn:  # it took the device itself, and runs
                return
            del self._jobs[rejected.request_id]
        job.on_result(error_of_request(rejected))

    def _take_turn(self, grant: Grant, device: DevicePage) -> Job | None:
        """Enter the turn, with the turn lock if it is an exclusive one; None if the request has ended."""
        job = self._jobs.get(grant.request_id)
        if job is None or not job.is_in_turn:  # else taken in ``submit``, which may still hold the lock
            with self._lock:
                job = self._jobs.get(grant.request_id)
                self._last_lease = max(self._last_lease, grant.lease)
                if job is None:  # cancelled while the grant was on its way
                    self._try_send(Finish(request_id=grant.request_id, lease=grant.lease))
                    return None
                self._num_open_turns += not job.is_in_turn
                job.is_in_turn = True
        if grant.is_exclusive and not device.try_take_turn():
            device.take_turn()  # another's last news is still on its way to the allocator
        return job

    def _run_turn(self, grant: Grant) -> None:
        assert self._files is not None
        page, mailbox, device = self._files
        if (job := self._take_turn(grant, device)) is None:
            return
        first_block = job.blocks_done
        block_ends_s: list[float] = []
        start_ns = time.monotonic_ns()
        page.begin(grant.lease, first_block, start_ns)
        outcome, result = self._blocks.run(job, page, grant.lease, start_ns, block_ends_s)
        page.end()
        end_s = time.monotonic()  # from here to the next one's start the device idles
        device.end_turn()
        offer = page.read_offer(grant.lease)
        passed_lease = None if offer is None else offer.lease
        end = TurnEnd(job, grant.lease, first_block, start_ns, block_ends_s, end_s, outcome, result, passed_lease)
        if offer is None:
            self._tell_of_turn(end)
            return
        self._turn_ends.put(end)
        if not mailbox.try_send(offer.mailbox, offer.packet):
            self._turn_ends.wait()
            with self._lock:
                self._try_send(Undelivered(lease=offer.lease))

    def _tell_of_turn(self, end: TurnEnd) -> None:
        """The job waits again or is answered.

        The client hears of it first: where it and the allocator share a core, the allocator's part would delay the
        answer, while the device is passed on already or nobody waits for it.
        """
        job = end.job
        if end.result is not None:
            job.on_result(end.result)
        with self._lock:
            job.is_in_turn = False
            self._num_open_turns -= 1
            news = end.news()
            if isinstance(news, Finish):
                del self._jobs[news.request_id]
            self._try_send(news)
