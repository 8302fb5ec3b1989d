"""What the tests of this folder read off the allocators."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ray

from deployments.runtime.allocator_actor import allocators

LIMIT_S = 30.0


def allocator(device: str) -> Any:
    """The allocator of a device."""
    (handle,) = [handle for name, handle in allocators().items() if name.startswith(f"allocator-{device}-")]
    return handle


def slices(device: str, since: int = 0) -> list[dict[str, Any]]:
    """Recorded turns of the device, without the first ``since``."""
    turns: list[dict[str, Any]] = ray.get(allocator(device).slices_since.remote(since))
    return turns


def status(device: str) -> dict[str, Any]:
    """What the device does now."""
    state: dict[str, Any] = ray.get(allocator(device).status.remote())
    return state


def wait_until(condition: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    """Return once the condition holds; fail after the time limit."""
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"not in {limit_s} s: {what}")
