"""What an allocator lets everybody on its node know of its queue, so that choosing a device asks nobody.

The allocator keeps a copy of what waits in a page of memory, one entry a request, and of what runs: O(1) for each that
comes or goes. Who wants to know how long a request would wait there reads the page and asks the scheduling core, set
up with the same policy and the same queue: the prediction is the allocator's own. Block times that the holder reports
at undisturbed boundaries are not in it: a turn is taken to go on as was predicted when it began.

A count goes up before and after each change, so a reader notices when it has read in the middle of one. The allocator
keeps the file locked: the system gives the lock back when it dies, and what the page says is old news then.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from math import inf
from pathlib import Path
from typing import NamedTuple

import msgspec

from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.candidate import Candidate
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.policies.table import make_policy
from deployments.scheduling.request import Request, RequestId

QUEUE_PAGE_FILE = "queue.page"
MAX_ENTRIES = 256
"""With more that wait, the whole run time of them is taken for the wait."""

_HEAD = struct.Struct("<qqqqdd")  # changes, entries, waiting, running, work_s, as of when
_HOLDER = struct.Struct("<qdddddq48s")  # priority, arrival, deadline, isolated, block began, left, blocks left, model
_ENTRY = struct.Struct("<qdddd48s")  # priority, arrival, deadline, isolated, remaining, model (cut off if longer)
_HOLDER_AT, _SETTINGS_AT, _ENTRIES_AT = 64, 256, 4096
_SETTINGS_LENGTH = struct.Struct("<qq")  # how often they changed, bytes
_PAGE_BYTES = _ENTRIES_AT + MAX_ENTRIES * _ENTRY.size
_MAX_TRIES = 5


def _map(folder: Path, flags: int) -> tuple[int, mmap.mmap]:
    descriptor = os.open(folder / QUEUE_PAGE_FILE, os.O_RDWR | flags, 0o600)
    try:
        if flags & os.O_CREAT:
            os.ftruncate(descriptor, _PAGE_BYTES)
        return descriptor, mmap.mmap(descriptor, _PAGE_BYTES)
    except BaseException:
        os.close(descriptor)
        raise


class QueuePage:
    """The allocator's side; told by the scheduling core who waits (``waiting_room.Watcher``)."""

    def __init__(self, folder: Path, settings: DeviceSettings) -> None:
        """Open the page in the device's folder, empty it and lock it; waits for a dying allocator to let go.

        Raises:
            OSError: If it cannot be opened.
        """
        self._descriptor, self._map = _map(folder, os.O_CREAT)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        self._changes = _HEAD.unpack_from(self._map)[0] | 1
        self._entries: list[RequestId] = []
        self._places: dict[RequestId, int] = {}
        self._num_waiting = 0
        self._settings_changes = _SETTINGS_LENGTH.unpack_from(self._map, _SETTINGS_AT)[0]
        _HEAD.pack_into(self._map, 0, self._changes, 0, 0, 0, 0.0, 0.0)
        self.tell_settings(settings)
        self._changes += 1
        _HEAD.pack_into(self._map, 0, self._changes, 0, 0, 0, 0.0, 0.0)

    def tell_settings(self, settings: DeviceSettings) -> None:
        """These are in force from now on."""
        packed = msgspec.msgpack.encode(settings)
        self._settings_changes += 1
        at = _SETTINGS_AT + _SETTINGS_LENGTH.size
        if at + len(packed) <= _ENTRIES_AT:
            self._map[at : at + len(packed)] = packed
            _SETTINGS_LENGTH.pack_into(self._map, _SETTINGS_AT, self._settings_changes, len(packed))

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait."""
        self._num_waiting += 1
        place = len(self._entries)
        if place == MAX_ENTRIES:
            return
        request_id = candidate.request.request_id
        self._entries.append(request_id)
        self._places[request_id] = place
        self._begin_change()
        _ENTRY.pack_into(
            self._map,
            _ENTRIES_AT + place * _ENTRY.size,
            candidate.priority,
            candidate.arrival_s,
            candidate.deadline_s,
            candidate.isolated_s,
            candidate.remaining_s,
            candidate.model.encode(),
        )

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more; the last entry takes its place."""
        self._num_waiting -= 1
        place = self._places.pop(candidate.request.request_id, None)
        if place is None:
            return
        last = self._entries.pop()
        self._begin_change()
        if place < len(self._entries):
            self._entries[place] = last
            self._places[last] = place
            last_at, at = _ENTRIES_AT + len(self._entries) * _ENTRY.size, _ENTRIES_AT + place * _ENTRY.size
            self._map[at : at + _ENTRY.size] = self._map[last_at : last_at + _ENTRY.size]

    def tell(self, core: DeviceAllocator, now_s: float) -> None:
        """Everything that has happened is in the page from now on."""
        self._begin_change()
        running = core.running
        if running:
            holder = running[0]
            _HOLDER.pack_into(
                self._map,
                _HOLDER_AT,
                holder.priority,
                holder.arrival_s,
                holder.deadline_s,
                holder.isolated_s,
                holder.block_began_s,
                holder.running_block_s + holder.remaining_s,
                max(1, holder.num_blocks - holder.blocks_done),
                holder.model.encode(),
            )
        head = (len(self._entries), self._num_waiting, len(running), core.work_s(now_s), now_s)
        self._changes += 1
        _HEAD.pack_into(self._map, 0, self._changes, *head)

    def close(self) -> None:
        """Give the lock back: from now on the page is old news."""
        self._map.close()
        os.close(self._descriptor)

    def _begin_change(self) -> None:
        if not self._changes & 1:
            self._changes += 1
            struct.pack_into("<q", self._map, 0, self._changes)


class _Head(NamedTuple):
    changes: int
    num_entries: int
    num_waiting: int
    num_running: int
    work_s: float
    as_of_s: float


class DeviceView:
    """Another process's view of a device, good for ``scheduling.routing``; one whose allocator is gone is never idle,
    and waiting for it takes forever."""

    def __init__(self, folder: Path) -> None:
        """Open the page in the device's folder.

        Raises:
            OSError: If there is none yet.
        """
        self._descriptor, self._map = _map(folder, 0)
        self._settings_changes = -1
        self._settings = DeviceSettings()

    @property
    def is_alive(self) -> bool:
        """Whether the device's allocator lives."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return False

    @property
    def is_idle(self) -> bool:
        """Whether nobody holds the device or waits for it."""
        head = self._head()
        return head.num_running == 0 and head.num_waiting == 0 and self.is_alive

    def work_s(self, now_s: float) -> float:
        """Predicted run time of all that hold the device or wait for it, in seconds."""
        if not self.is_alive:
            return inf
        return _work_s(self._head(), now_s)

    def predicted_wait_s(self, request: Request, now_s: float) -> float:
        """How long the request would wait for its first turn, in seconds, as the device's allocator would say."""
        if not self.is_alive:
            return inf
        head, entries = self._read()
        settings = self._settings_in_force()
        sharing = settings.sharing
        if head.num_entries < head.num_waiting:
            return _work_s(head, now_s)
        core = DeviceAllocator(
            policy=make_policy(sharing.policy, settings.policy_options),
            exclusive=sharing.exclusive,
            preemption=sharing.preemption,
            recovering=True,  # nothing is granted: it stands as the device does
        )
        if head.num_running:
            core.announce(self._holder(now_s), blocks_done=0, is_holding=True, now_s=now_s)
        for number, (priority, arrival_s, deadline_s, isolated_s, remaining_s, model) in enumerate(entries):
            waiting = _request(str(number), priority, arrival_s, deadline_s, isolated_s, (remaining_s,), model)
            core.announce(waiting, blocks_done=0, is_holding=False, now_s=now_s)
        return core.predicted_wait_s(request, now_s)

    def close(self) -> None:
        """Unmap and close the page."""
        self._map.close()
        os.close(self._descriptor)

    def _head(self) -> _Head:
        return _Head._make(_HEAD.unpack_from(self._map))

    def _read(self) -> tuple[_Head, list[tuple[int, float, float, float, float, bytes]]]:
        """The head and the entries of one moment, or of two close ones where the allocator is very busy."""
        for _ in range(_MAX_TRIES):
            head = self._head()
            end = _ENTRIES_AT + min(head.num_entries, MAX_ENTRIES) * _ENTRY.size
            entries = self._map[_ENTRIES_AT:end]
            if not head.changes & 1 and self._head().changes == head.changes:
                break
        return head, list(_ENTRY.iter_unpack(entries))

    def _holder(self, now_s: float) -> Request:
        """Who runs: as one block up to its next boundary and one for all that is behind that."""
        priority, arrival_s, deadline_s, isolated_s, began_s, left_s, num_left, model = _HOLDER.unpack_from(
            self._map, _HOLDER_AT
        )
        block_s = left_s / max(1, num_left)
        ran_s = min(max(0.0, now_s - began_s), left_s)
        boundary_s = min(block_s - ran_s % block_s if block_s else 0.0, left_s - ran_s)
        behind_s = left_s - ran_s - boundary_s
        blocks_s = (boundary_s, behind_s) if behind_s > 0.0 else (boundary_s,)
        return _request("holder", priority, arrival_s, deadline_s, isolated_s, blocks_s, model)

    def _settings_in_force(self) -> DeviceSettings:
        changes, num_bytes = _SETTINGS_LENGTH.unpack_from(self._map, _SETTINGS_AT)
        if changes != self._settings_changes:
            at = _SETTINGS_AT + _SETTINGS_LENGTH.size
            self._settings = msgspec.msgpack.decode(self._map[at : at + num_bytes], type=DeviceSettings)
            self._settings_changes = changes
        return self._settings


def _work_s(head: _Head, now_s: float) -> float:
    """What was there, less what has run since; more than nothing as long as somebody runs."""
    ran_s = max(0.0, now_s - head.as_of_s) if head.num_running else 0.0
    return max(0.0, head.work_s - ran_s)


def _request(
    name: str,
    priority: int,
    arrival_s: float,
    deadline_s: float,
    isolated_s: float,
    blocks_s: tuple[float, ...],
    model: bytes,
) -> Request:
    return Request(
        request_id=RequestId(name),
        model=model.rstrip(b"\0").decode(errors="replace"),
        owner="",
        arrival_s=arrival_s,
        isolated_s=isolated_s,
        block_times_s=blocks_s,
        deadline_s=deadline_s,
        priority=priority,
    )
