"""Measured runs take turns with whoever else uses the device: nobody spoils their figures, and they disturb nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

Turn = Callable[[], AbstractContextManager[None]]
"""Gives a context manager for one measured run: the device is the caller's inside of it."""

_turn: ContextVar[Turn] = ContextVar("turn", default=nullcontext)


@contextmanager
def taking(turn: Turn) -> Iterator[None]:
    """Have all runs that are measured inside of the block, in this thread, run inside of ``turn()``."""
    token = _turn.set(turn)
    try:
        yield
    finally:
        _turn.reset(token)


def turn() -> AbstractContextManager[None]:
    """What a measured run runs inside of; nothing special where the device is not shared."""
    return _turn.get()()
