"""Whether the process that keeps a file locked lives: the system takes its locks away when it ends, however it does."""

from __future__ import annotations

import fcntl


def is_locked(descriptor: int) -> bool:
    """Whether somebody else holds an exclusive ``flock`` on the open file.

    The question is asked with a shared lock, so that two who ask at the same time do not see each other.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False
