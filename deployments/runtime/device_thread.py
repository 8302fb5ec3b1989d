"""The thread of a replica that runs blocks while it holds the device.

It is the only thread that waits for the allocator and the only one that runs blocks. Requests come in from any
thread; answers go out through a callback. A request is *waiting* (in ``_jobs``, known to the allocator) until a grant
comes, then in a *turn*; after the turn it is waiting again (yielded at a boundary) or answered. A grant comes from the
allocator, from the replica whose turn has just ended, or from this replica itself where the device was free; the last
two lie in the mailbox. If the allocator dies, a turn goes on to its end; then the thread connects to the restarted one
and announces what waits.
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
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from deployments.runtime.backends.interface import LoadedBlocks
from deployments.runtime.block_times import BlockTimes
from deployments.runtime.copies import Copies
from deployments.runtime.device_page import DevicePage
from deployments.runtime.errors import (
    AllocatorUnreachableError,
    BlockFailedError,
    DataRefusedError,
    LeaseOverdueError,
    MemoryBudgetError,
    ProtocolMismatchError,
    ReplicaClosedError,
    RuntimeServingError,
    SettingsConflictError,
)
from deployments.runtime.lease_page import LeasePage
from deployments.runtime.messages import (
    PROTOCOL_VERSION,
    Announce,
    Cancel,
    Claim,
    Finish,
    Grant,
    Hello,
    InForce,
    Outcome,
    Refused,
    Rejected,
    Slice,
    Submit,
    ToAllocator,
    ToReplica,
    Undelivered,
    Welcome,
    Yield,
    decode_to_replica,
    encode,
    next_lease,
)
from deployments.runtime.settings import DeviceSettings
from deployments.runtime.transport import Mailbox, PacketSocket, connect
from deployments.runtime.turn_ends import TurnEnds
from deployments.scheduling.errors import (
    DuplicateRequestError,
    InvalidRequestError,
    ModelQueueFullError,
    QueueFullError,
    RefusedError,
    SchedulingError,
)
from deployments.scheduling.request import Request, RequestId

logger = logging.getLogger(__name__)

Result = dict[str, np.ndarray] | Exception

_REJECTIONS: dict[str, type[SchedulingError]] = {
    kind.__name__: kind
    for kind in (QueueFullError, ModelQueueFullError, RefusedError, InvalidRequestError, DuplicateRequestError)
}
_REFUSALS: dict[str, type[RuntimeServingError]] = {
    "version": ProtocolMismatchError,
    "settings": SettingsConflictError,
    "memory": MemoryBudgetError,
}
_RECONNECT_S = 0.05
_CONNECT_LIMIT_S = 30.0


class _Job:
    """A request of this replica that is not answered yet."""

    __slots__ = ("blocks_done", "inputs", "is_cancelled", "is_in_turn", "on_block", "on_result", "request", "values")

    def __init__(
        self,
        request: Request,
        inputs: Mapping[str, np.ndarray],
        on_result: Callable[[Result], None],
        on_block: Callable[[float], None] | None,
    ) -> None:
        self.request = request
        self.inputs: Mapping[str, np.ndarray] | None = inputs
        self.values: Any = None  # the backend's
        self.on_result = on_result
        self.on_block = on_block
        self.blocks_done = request.first_block
        self.is_in_turn = False
        self.is_cancelled = False


class _TurnEnd(NamedTuple):
    """A turn that is over, with what is still to be told of it."""

    job: _Job
    lease: int
    first_block: int
    start_ns: int
    block_ends_s: list[float]
    end_s: float
    outcome: Outcome
    result: Result | None
    passed_lease: int | None


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
        self._block_times = block_times
        self._settings = settings
        self._find_socket = find_socket
        self._claim = claim
        self._on_settings = on_settings
        self._lock = threading.Lock()  # guards _jobs, _connection and the order of sends
        self._jobs: dict[RequestId, _Job] = {}
        self._connection: PacketSocket | None = None
        self._page: LeasePage | None = None
        self._device_page: DevicePage | None = None
        self._mailbox: Mailbox | None = None
        self._num_open_turns = 0  # begun, or taken by ``submit``, and not told to be over
        self._last_lease = 0
        self._is_closing = False
        self._failure: Exception | None = None
        self.copies = Copies()  # written by the thread alone
        try:
            self._connect(time.monotonic() + _CONNECT_LIMIT_S)
            self._chain = load()
        except Exception:
            self._close_connection()
            self._close_pages()
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
            self._jobs[request.request_id] = job = _Job(request, inputs, on_result, on_block)
            job.is_in_turn = self._try_take_free_device(request.request_id)
            self._try_send(Submit(request=request, taken_lease=self._last_lease if job.is_in_turn else None))

    def _try_take_free_device(self, request_id: RequestId) -> bool:
        """Take a turn without asking; under the lock, after which the turn begins on the thread."""
        device, mailbox = self._device_page, self._mailbox
        if self._connection is None or device is None or mailbox is None:
            return False
        if self._num_open_turns or not device.is_free or not device.try_take_turn():
            return False
        lease = next_lease(self._last_lease)
        grant = encode(Grant(request_id=request_id, lease=lease))
        if not device.is_free or not mailbox.try_send(os.fsencode(mailbox.path), grant):
            device.end_turn()
            return False
        self._num_open_turns, self._last_lease = 1, lease
        return True

    def claim(self, settings: DeviceSettings | None) -> None:
        """Want other settings of the device, or none in particular any more; see ``claims.py``."""
        with self._lock:
            self._claim = settings
            self._try_send(Claim(settings=settings))

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
        page = self._page
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
        self._close_pages()
        self._chain.close()

    def _close_pages(self) -> None:
        if self._mailbox is not None:
            self._mailbox.close()
        if self._page is not None:
            self._page.close(unlink=True)
        if self._device_page is not None:
            self._device_page.close()
        self._mailbox = self._page = self._device_page = None

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
        if self._page is None or not self._page.path.exists():
            self._close_pages()
            self._num_open_turns = 0
            for job in self._jobs.values():
                job.is_in_turn = False  # its grant lay in the mailbox
            self._page = LeasePage(folder / f"{uuid4().hex[:12]}.page", create=True)
            self._mailbox = Mailbox(self._page.mailbox_path)
            self._device_page = DevicePage(folder)
        waiting = [job for job in self._jobs.values() if not job.is_in_turn]
        self._try_send(
            Hello(
                version=PROTOCOL_VERSION,
                owner=self.owner,
                model=self._model,
                pid=os.getpid(),
                page=self._page.path.name,
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
            raise _REFUSALS[answer.reason](answer.message)
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
        connection, mailbox = self._connection, self._mailbox
        if connection is None or mailbox is None:
            return
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
        job.on_result(_REJECTIONS[rejected.error](*rejected.error_args))

    def _take_turn(self, grant: Grant, device: DevicePage) -> _Job | None:
        """Enter the turn, with the turn lock if it is an exclusive one; None if the request has ended."""
        with self._lock:
            job = self._jobs.get(grant.request_id)
            self._last_lease = max(self._last_lease, grant.lease)
            if job is None:  # cancelled while the grant was on its way
                self._try_send(Finish(request_id=grant.request_id, lease=grant.lease))
                return None
            self._num_open_turns += not job.is_in_turn  # else it is open: the device was free and taken in ``submit``
            job.is_in_turn = True
        if grant.is_exclusive and not device.try_take_turn():
            device.take_turn()  # another's last news is still on its way to the allocator
        return job

    def _run_turn(self, grant: Grant) -> None:
        page, device, mailbox = self._page, self._device_page, self._mailbox
        assert page is not None
        assert device is not None
        assert mailbox is not None
        if (job := self._take_turn(grant, device)) is None:
            return
        first_block, block_ends_s = job.blocks_done, list[float]()
        start_ns = time.monotonic_ns()
        page.begin(grant.lease, first_block, start_ns)
        outcome, result = self._run_blocks(job, page, grant.lease, start_ns, block_ends_s)
        page.end()
        end_s = time.monotonic()  # from here to the next one's start the device idles
        device.end_turn()
        offer = page.read_offer(grant.lease)
        passed_lease = None if offer is None else offer.lease
        end = _TurnEnd(job, grant.lease, first_block, start_ns, block_ends_s, end_s, outcome, result, passed_lease)
        if offer is None:
            self._tell_of_turn(end)
            return
        self._turn_ends.put(end)
        if not mailbox.try_send(offer.mailbox, offer.packet):
            self._turn_ends.wait()
            with self._lock:
                self._try_send(Undelivered(lease=offer.lease))

    def _tell_of_turn(self, end: _TurnEnd) -> None:
        """The job waits again or is answered; tell the allocator first, then the client."""
        job, request_id, passed_lease = end.job, end.job.request.request_id, end.passed_lease
        turn = Slice(
            request_id=request_id,
            model=self._model,
            lease=end.lease,
            first_block=end.first_block,
            start_s=end.start_ns / 1e9,
            block_ends_s=tuple(end.block_ends_s),
            end_s=end.end_s,
            outcome=end.outcome,
        )
        with self._lock:
            job.is_in_turn = False
            self._num_open_turns -= 1
            if end.outcome == "yielded" and not job.is_cancelled:
                self._try_send(
                    Yield(
                        request_id=request_id,
                        lease=end.lease,
                        blocks_done=job.blocks_done,
                        passed_lease=passed_lease,
                        turn=turn,
                    )
                )
            else:
                del self._jobs[request_id]
                self._try_send(Finish(request_id=request_id, lease=end.lease, passed_lease=passed_lease, turn=turn))
        if end.result is not None:
            job.on_result(end.result)

    def _run_blocks(
        self, job: _Job, page: LeasePage, lease: int, start_ns: int, block_ends_s: list[float]
    ) -> tuple[Outcome, Result | None]:
        """Run block after block until the last, or until the device is wanted back."""
        chain, began_ns = self._chain, start_ns
        request = job.request
        try:
            if job.values is None:
                self._start(job)
            while True:
                chain.run_block(job.blocks_done - request.first_block, job.values)
                now_ns = time.monotonic_ns()
                block_ends_s.append(now_ns / 1e9)
                block_s = (now_ns - began_ns) / 1e9
                self._block_times.observe(job.blocks_done, block_s)
                if job.on_block is not None:
                    job.on_block(block_s)
                job.blocks_done += 1
                began_ns = now_ns
                if job.is_cancelled:
                    return "cancelled", None
                if job.blocks_done == request.stops_at:
                    return "finished", self._outputs(job)
                if self._is_closing:
                    return "cancelled", ReplicaClosedError(
                        f"the replica of {self._model!r} shut down while the request ran: send it again"
                    )
                if page.is_revoked(lease):
                    return "yielded", None
                page.begin(lease, job.blocks_done, now_ns)
        except Exception as error:
            kind = DataRefusedError if isinstance(error, DataRefusedError) else BlockFailedError
            failure = kind(f"block {job.blocks_done} of {self._model!r} failed: {error}")
            failure.__cause__ = error
            return "failed", failure

    def _start(self, job: _Job) -> None:
        assert job.inputs is not None
        begin_ns = time.monotonic_ns()
        job.values = self._chain.start(job.inputs)
        self.copies.add_inputs(job.inputs.values(), time.monotonic_ns() - begin_ns)
        job.inputs = None

    def _outputs(self, job: _Job) -> dict[str, np.ndarray]:
        begin_ns = time.monotonic_ns()
        outputs = self._chain.finish(job.values)
        self.copies.add_outputs(outputs.values(), time.monotonic_ns() - begin_ns)
        return outputs
