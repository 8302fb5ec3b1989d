"""The other replicas of a model on this node, and whether a request had better go to one of them.

Whichever replica a request comes to, it stays there unless another device would have it wait less, by more than it
costs to go there. What the devices are busy with stands in shared memory (``queue_page.py``), so nobody is asked, and
a request whose own device is idle costs a look at that. A request that was handed on is not handed on again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deployments.runtime.device_view import DeviceView
from deployments.runtime.errors import AllocatorUnreachableError, NeighbourGoneError, ReplicaClosedError
from deployments.runtime.neighbour_link import Methods, NeighbourLink, start_link
from deployments.runtime.seats import Seat, neighbours_of
from deployments.scheduling.request import Request
from deployments.scheduling.routing import choose_device

HOP_S = 0.002
"""What it costs to hand a request on and its answer back (``benchmarks.routing``)."""

_SETTLED_NS = 100_000_000


class Neighbours:
    """Of one replica; used by its event loop."""

    def __init__(self, seat: Seat, device_folders: Mapping[str, Path]) -> None:
        """Nobody is known yet.

        Args:
            seat: The replica's own.
            device_folders: By name of each device of the model, its allocator's folder.
        """
        self._seat = seat
        self._folders = dict(device_folders)
        self._views: dict[str, DeviceView] = {}
        self._links: dict[Path, NeighbourLink] = {}
        self._by_device: dict[str, list[NeighbourLink]] = {}
        self._seen_ns = -1

    async def meet(self, methods: Methods) -> None:
        """Take calls of these methods from the neighbours, from now on."""
        self._server = await start_link(self._seat.socket_path, methods)

    def leave(self) -> None:
        """Take no calls any more: new ones find nobody, those in progress end as they do."""
        self._seat.socket_path.unlink(missing_ok=True)

    async def try_elsewhere(self, make_request: Callable[[], Request], method: str, *arguments: Any) -> Any:
        """What the method of a neighbour gives where the request had better go there; None: it is better off here.

        Args:
            make_request: Makes the request as it would be here; called if the device is not idle.
            method: Runs it.
            arguments: Of the method.

        Raises:
            Exception: What the method raised. If the neighbour goes away or shuts down, the request is to run here.
        """
        link = self._better_one(make_request)
        if link is None:
            return None
        try:
            return await link.call(method, *arguments)
        except (NeighbourGoneError, ReplicaClosedError, AllocatorUnreachableError):
            for links in self._by_device.values():
                if link in links:
                    links.remove(link)
            return None

    async def ask_all(self, method: str, *arguments: Any) -> list[Any]:
        """What each neighbour answers; those that are gone are left out."""
        self._look_around()
        answers = []
        for link in list(self._links.values()):
            try:
                answers.append(await link.call(method, *arguments))
            except NeighbourGoneError:
                continue
        return answers

    def _better_one(self, make_request: Callable[[], Request]) -> NeighbourLink | None:
        """The neighbour to which a request had better go; None: it stays."""
        here = self._view(self._seat.device)
        if here is None or here.is_idle:
            return None
        self._look_around()
        devices = [name for name in self._folders if name == self._seat.device or self._by_device.get(name)]
        views = {name: view for name in devices if (view := self._view(name)) is not None}
        if len(views) < 2:
            return None
        names = list(views)
        first = names.index(self._seat.device)
        chosen = choose_device(list(views.values()), make_request(), time.monotonic(), first=first, hop_s=HOP_S)
        if chosen == first:
            return None
        links = self._by_device[names[chosen]]
        links.append(links.pop(0))
        return links[-1]

    def _look_around(self) -> None:
        """Find who has come and gone, if anybody may have."""
        changed_ns = os.stat(self._seat.socket_path.parent).st_mtime_ns
        if changed_ns == self._seen_ns:
            return
        is_settled = time.time_ns() - changed_ns > _SETTLED_NS  # the clock of files is coarse
        self._seen_ns = changed_ns if is_settled else -1
        found = neighbours_of(self._seat)
        for path in self._links.keys() - found.keys():
            self._links.pop(path).close()
        self._by_device = {}
        for path, device in found.items():
            link = self._links.setdefault(path, NeighbourLink(path))
            if device != self._seat.device:
                self._by_device.setdefault(device, []).append(link)

    def _view(self, device: str) -> DeviceView | None:
        if device not in self._views:
            try:
                self._views[device] = DeviceView(self._folders[device])
            except (OSError, ValueError):
                return None  # nobody has used it yet, or its allocator is just making the page
        return self._views[device]
