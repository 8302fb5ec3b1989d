"""After a restart of the allocator: no grants until all living replicas have announced what waits.

Or until 500 ms have passed and none of the others is in a turn: a turn that outlives an allocator goes on to its end.
"""

from __future__ import annotations

from pathlib import Path

from deployments.runtime.lease_page import open_page_of_living_replica, pages_of_living_replicas

RECOVERY_S = 0.5


class Recovery:
    """Who is still to announce.

    Attributes:
        ends_s: When to look whether it is over, monotonic; None once it is.
    """

    def __init__(self, folder: Path, now_s: float) -> None:
        """Find the pages of living replicas in the device's folder; without any there is nothing to recover."""
        self._folder = folder
        self._unannounced = pages_of_living_replicas(folder)
        self.ends_s = now_s + RECOVERY_S if self._unannounced else None

    def announced(self, page: str, now_s: float) -> bool:
        """The replica with this page has said all; whether that ends the recovery."""
        self._unannounced.discard(page)
        return self.ends_s is not None and not self._unannounced and self.is_over(now_s)

    def is_over(self, now_s: float) -> bool:
        """Whether it ends now; if one that has not announced is in a turn, it is to be asked again later."""
        for name in list(self._unannounced):
            page = open_page_of_living_replica(self._folder / name)
            if page is None:
                self._unannounced.discard(name)
                continue
            is_in_turn = page.progress is not None
            page.close()
            if is_in_turn:
                self.ends_s = now_s + RECOVERY_S / 10
                return False
        self.ends_s = None
        return True
