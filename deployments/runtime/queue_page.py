"""What an allocator lets everybody on its node know of its queue, so that choosing a device asks nobody.

The allocator keeps a copy of what waits in a page of memory, one entry a request, and of what runs: O(1) for each that
comes or goes. ``device_view.py`` reads it.

A count goes up before and after each change, so a reader notices when it has read in the middle of one. The allocator
keeps the file locked: the system gives the lock back when it dies, and what the page says is old news then.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from pathlib import Path

import msgspec

from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.candidate import Candidate
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.request import RequestId

QUEUE_PAGE_FILE = "queue.page"
MAX_ENTRIES = 256
"""With more that wait, the whole run time of them is taken for the wait."""

HEAD = struct.Struct("<qqqqdd")  # changes, entries, waiting, running, work_s, as of when
HOLDER = struct.Struct("<qdddddq48s")  # priority, arrival, deadline, isolated, block began, left, blocks left, model
ENTRY = struct.Struct("<qqdddd40s")  # number, priority, arrival, deadline, isolated, remaining, model
HOLDER_AT, SETTINGS_AT, ENTRIES_AT = 64, 256, 4096
SETTINGS_HEAD = struct.Struct("<qq")  # how often they changed, bytes
_PAGE_BYTES = ENTRIES_AT + MAX_ENTRIES * ENTRY.size


def open_page(folder: Path, flags: int) -> tuple[int, mmap.mmap]:
    """The descriptor of the page in a device's folder, and its memory.

    Raises:
        OSError: If it cannot be opened.
    """
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
        self._descriptor, self._map = open_page(folder, os.O_CREAT)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        self._changes = HEAD.unpack_from(self._map)[0] | 1
        self._entries: list[RequestId] = []
        self._places: dict[RequestId, int] = {}
        self._num_waiting = 0
        self._settings_changes = SETTINGS_HEAD.unpack_from(self._map, SETTINGS_AT)[0]
        HEAD.pack_into(self._map, 0, self._changes, 0, 0, 0, 0.0, 0.0)
        self.tell_settings(settings)
        self._changes += 1
        HEAD.pack_into(self._map, 0, self._changes, 0, 0, 0, 0.0, 0.0)

    def tell_settings(self, settings: DeviceSettings) -> None:
        """These are in force from now on."""
        packed = msgspec.msgpack.encode(settings)
        self._settings_changes += 1
        at = SETTINGS_AT + SETTINGS_HEAD.size
        if at + len(packed) <= ENTRIES_AT:
            self._map[at : at + len(packed)] = packed
            SETTINGS_HEAD.pack_into(self._map, SETTINGS_AT, self._settings_changes, len(packed))

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
        ENTRY.pack_into(
            self._map,
            ENTRIES_AT + place * ENTRY.size,
            candidate.sequence,
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
            last_at, at = ENTRIES_AT + len(self._entries) * ENTRY.size, ENTRIES_AT + place * ENTRY.size
            self._map[at : at + ENTRY.size] = self._map[last_at : last_at + ENTRY.size]

    def tell(self, core: DeviceAllocator, now_s: float) -> None:
        """Everything that has happened is in the page from now on."""
        self._begin_change()
        running = core.running
        if running:
            holder = running[0]
            HOLDER.pack_into(
                self._map,
                HOLDER_AT,
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
        HEAD.pack_into(self._map, 0, self._changes, *head)

    def close(self) -> None:
        """Give the lock back: from now on the page is old news."""
        self._map.close()
        os.close(self._descriptor)

    def _begin_change(self) -> None:
        if not self._changes & 1:
            self._changes += 1
            struct.pack_into("<q", self._map, 0, self._changes)
