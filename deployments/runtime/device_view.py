"""What the other processes of a node see of a device: how long a request would wait there, without asking anybody.

The page of the allocator's queue (``queue_page.py``) is read, and the scheduling core asked, set up with the same
policy and the same queue: the prediction is the allocator's own. Progress at boundaries that send nothing is not in the
page: a turn is taken to go on as was predicted when it was last heard of.
"""

from __future__ import annotations

import os
from math import inf
from pathlib import Path
from typing import NamedTuple

import msgspec

from deployments.runtime.liveness import is_locked
from deployments.runtime.queue_page import (
    ENTRIES_AT,
    ENTRY,
    HEAD,
    HOLDER,
    HOLDER_AT,
    SETTINGS_AT,
    SETTINGS_HEAD,
    open_page,
)
from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.errors import SchedulingError
from deployments.scheduling.policies.table import make_policy
from deployments.scheduling.request import Request, RequestId

_MAX_TRIES = 5
_HOLDER = RequestId("holder")


class _Head(NamedTuple):
    changes: int
    num_entries: int
    num_waiting: int
    num_running: int
    work_s: float
    as_of_s: float


class _Seen(NamedTuple):
    head: _Head
    holder: tuple[int, float, float, float, float, float, int, bytes]
    entries: list[bytes]


class _Mirror:
    """A scheduling core that is told what is seen of another one; it grants nothing.

    Attributes:
        core: It.
    """

    def __init__(self, settings: DeviceSettings) -> None:
        sharing = settings.sharing
        self.core = DeviceAllocator(
            policy=make_policy(sharing.policy, settings.policy_options),
            exclusive=sharing.exclusive,
            preemption=sharing.preemption,
            recovering=True,
        )
        self._held_since_s: float | None = None
        self._names: dict[bytes, RequestId] = {}

    def follow(self, seen: _Seen, now_s: float) -> None:
        """Stand as was seen."""
        core, names = self.core, self._names
        if self._held_since_s is not None:
            core.finish(_HOLDER, self._held_since_s)  # as if it had not run: it is there anew if it still runs
            self._held_since_s = None
        if seen.head.num_running:
            core.announce(_holder(seen.holder, now_s), blocks_done=0, is_holding=True, now_s=now_s)
            self._held_since_s = now_s
        for entry in names.keys() - set(seen.entries):
            core.cancel(names.pop(entry), now_s)
        for entry in seen.entries:
            if entry not in names:
                number, priority, arrival_s, deadline_s, isolated_s, remaining_s, model = ENTRY.unpack(entry)
                name = names[entry] = RequestId(str(number))
                waiting = _request(name, priority, arrival_s, deadline_s, isolated_s, (remaining_s,), model)
                core.announce(waiting, blocks_done=0, is_holding=False, now_s=now_s)


class DeviceView:
    """A device to choose from (``scheduling.routing``); one whose allocator is gone is never idle, and waiting for it
    takes forever.
    """

    def __init__(self, folder: Path) -> None:
        """Open the page in the device's folder.

        Raises:
            OSError: If there is none yet.
        """
        self._descriptor, self._map = open_page(folder, 0)
        self._settings_changes = 0
        self._mirror: _Mirror | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the device's allocator lives."""
        return is_locked(self._descriptor)

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

    def predicted_wait_s(self, request: Request, now_s: float, limit_s: float = inf) -> float:
        """How long the request would wait for its first turn, in seconds, as the device's allocator would say.

        Costs what has changed since it was asked last, and the forecast; see ``DeviceAllocator.predicted_wait_s``.
        """
        if not self.is_alive:
            return inf
        seen = self._read()
        if seen is None or seen.head.num_entries < seen.head.num_waiting:
            return self.work_s(now_s)
        try:
            return self._follow(seen, now_s).predicted_wait_s(request, now_s, limit_s)
        except (SchedulingError, msgspec.DecodeError):  # a processor may show another one's stores in another order
            self._mirror = None
            return self.work_s(now_s)

    def _follow(self, seen: _Seen, now_s: float) -> DeviceAllocator:
        """The mirror, made to stand as the device does."""
        changes, num_bytes = SETTINGS_HEAD.unpack_from(self._map, SETTINGS_AT)
        if self._mirror is None or changes != self._settings_changes:
            at = SETTINGS_AT + SETTINGS_HEAD.size
            settings = msgspec.msgpack.decode(self._map[at : at + num_bytes], type=DeviceSettings)
            self._mirror, self._settings_changes = _Mirror(settings), changes
        self._mirror.follow(seen, now_s)
        return self._mirror.core

    def close(self) -> None:
        """Unmap and close the page."""
        self._map.close()
        os.close(self._descriptor)

    def _head(self) -> _Head:
        return _Head._make(HEAD.unpack_from(self._map))

    def _read(self) -> _Seen | None:
        """The page as it was at one moment; None if the allocator is too busy with it."""
        for _ in range(_MAX_TRIES):
            head = self._head()
            holder = self._map[HOLDER_AT : HOLDER_AT + HOLDER.size]
            entries = self._map[ENTRIES_AT : ENTRIES_AT + head.num_entries * ENTRY.size]
            if not head.changes & 1 and self._head().changes == head.changes:
                pieces = [entries[at : at + ENTRY.size] for at in range(0, len(entries), ENTRY.size)]
                return _Seen(head, HOLDER.unpack(holder), pieces)
        return None


def _work_s(head: _Head, now_s: float) -> float:
    """What was there, less what has run since; more than nothing as long as somebody runs."""
    ran_s = max(0.0, now_s - head.as_of_s) if head.num_running else 0.0
    return max(0.0, head.work_s - ran_s)


def _holder(seen: tuple[int, float, float, float, float, float, int, bytes], now_s: float) -> Request:
    """Who runs: as one block up to its next boundary and one for all that is behind that."""
    priority, arrival_s, deadline_s, isolated_s, began_s, left_s, num_left, model = seen
    block_s = left_s / max(1, num_left)
    ran_s = min(max(0.0, now_s - began_s), left_s)
    boundary_s = min(block_s - ran_s % block_s if block_s else 0.0, left_s - ran_s)
    behind_s = left_s - ran_s - boundary_s
    blocks_s = (boundary_s, behind_s) if behind_s > 0.0 else (boundary_s,)
    return _request(_HOLDER, priority, arrival_s, deadline_s, isolated_s, blocks_s, model)


def _request(
    name: RequestId,
    priority: int,
    arrival_s: float,
    deadline_s: float,
    isolated_s: float,
    blocks_s: tuple[float, ...],
    model: bytes,
) -> Request:
    return Request(
        request_id=name,
        model=model.rstrip(b"\0").decode(errors="replace"),
        owner="",
        arrival_s=arrival_s,
        isolated_s=isolated_s,
        block_times_s=blocks_s,
        deadline_s=deadline_s,
        priority=priority,
    )
