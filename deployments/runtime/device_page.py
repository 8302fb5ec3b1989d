"""What all replicas of a device share without asking the allocator: its turn lock, and whether it is free.

The **turn lock** is a lock of the system on a file. Whoever runs blocks under an exclusive lease holds it from before
the first block to after the last, so that never two run at the same time, whatever messages say, cross or get lost;
the system gives it back when a process dies. Who gets a lease is the allocator's decision; the lock only makes late
news harmless.

The **free word** says that nobody holds the device or waits for it. A replica that sees it takes a turn without asking:
it takes the turn lock, looks again, and tells the allocator. If the allocator has begun to grant in the meantime, the
replica either sees the word cleared or holds the lock that the other has to wait for.

The file stays when the device is closed: were it removed, somebody could still hold the lock of the old one.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path

DEVICE_PAGE_FILE = "device.turn"
_PAGE_BYTES = 4096


class DevicePage:
    """One process's view of the shared file; the allocator writes the free word, replicas take the lock."""

    def __init__(self, folder: Path) -> None:
        """Open the file in the device's folder; create it if it is missing.

        Raises:
            OSError: If it cannot be opened.
        """
        self._descriptor = os.open(folder / DEVICE_PAGE_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._descriptor, _PAGE_BYTES)
        self._map = mmap.mmap(self._descriptor, _PAGE_BYTES)
        self._words = memoryview(self._map).cast("q")

    @property
    def is_free(self) -> bool:
        """Whether nobody holds the device or waits for it, as far as the allocator knows."""
        return self._words[0] == 1

    @is_free.setter
    def is_free(self, is_free: bool) -> None:
        self._words[0] = int(is_free)

    def try_take_turn(self) -> bool:
        """Take the turn lock if no other process has it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def take_turn(self) -> None:
        """Take the turn lock, waiting for it."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def end_turn(self) -> None:
        """Give the turn lock back."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Unmap and close the file; a turn lock that this process has is given back."""
        self._words.release()
        self._map.close()
        os.close(self._descriptor)
