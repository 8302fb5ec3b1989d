"""What is left to do when a turn is over, off the device thread.

The thread that has woken the next holder must leave the device's core to it: whatever it did from then on would be done
instead of the other's block, or after it. So another thread tells the allocator and the client.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

End = TypeVar("End")


class TurnEnds(Generic[End]):
    """Calls ``tell`` for each turn that has ended, in order, on a thread of its own."""

    def __init__(self, tell: Callable[[End], None], *, name: str) -> None:
        self._tell = tell
        self._queue: queue.SimpleQueue[End | threading.Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def put(self, end: End) -> None:
        """Have it told soon, by the other thread."""
        self._queue.put(end)

    def wait(self) -> None:
        """Return once everything put so far is told."""
        is_reached = threading.Event()
        self._queue.put(is_reached)
        is_reached.wait()

    def close(self) -> None:
        """Tell what is left and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (end := self._queue.get()) is not None:
            if isinstance(end, threading.Event):
                end.set()
                continue
            try:
                self._tell(end)
            except Exception:
                logger.exception("the end of a turn could not be told")
