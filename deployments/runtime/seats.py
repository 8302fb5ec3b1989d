"""Which replica of a model sits on which of its devices, and where its neighbours on the node find it.

A model with several devices is one Serve deployment whose replicas are all alike. Each takes a seat when it starts: on
the device where the fewest living replicas of the model sit. A seat is a file that the replica keeps locked; the system
gives it back when the process ends, however that happens, and the one that Serve starts instead finds it free. (The
rank that Serve gives a replica would not do: it may change while the replica runs.)
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from deployments.runtime.liveness import is_locked


class Seat:
    """A replica's seat; it is free when the process ends.

    Attributes:
        device: Name of the device.
        socket_path: Where the replica takes requests from its neighbours.
    """

    def __init__(self, folder: Path, devices: Sequence[str]) -> None:
        """Take a seat.

        Args:
            folder: Private folder of the model's seats on this node; created if missing.
            devices: Names of the model's devices; the first of those with the fewest replicas is taken.

        Raises:
            OSError: If the folder cannot be used.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mutex = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(mutex, fcntl.LOCK_EX)
            taken = Counter(path.name.split(".")[0] for path in _living_seats(folder))
            self.device = min(devices, key=lambda device: taken[device])
            path = folder / f"{self.device}.{uuid4().hex[:4]}.seat"
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        finally:
            os.close(mutex)
        self.socket_path = path.with_suffix(".sock")


def neighbours_of(seat: Seat) -> dict[Path, str]:
    """The device of each replica of the model that takes requests on this node, by its socket; some may be gone."""
    paths = seat.socket_path.parent.glob("*.sock")
    return {path: path.name.split(".")[0] for path in sorted(paths) if path != seat.socket_path}


def _living_seats(folder: Path) -> list[Path]:
    """Seats of living replicas; what dead ones left is removed. Under the mutex, as a new file is not locked yet."""
    living = []
    for path in folder.glob("*.seat"):
        descriptor = os.open(path, os.O_RDWR)
        try:
            if is_locked(descriptor):
                living.append(path)
            else:
                path.with_suffix(".sock").unlink(missing_ok=True)
                path.unlink()
        finally:
            os.close(descriptor)
    return living
