"""What is read off a machine and off our server while it is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec
import psutil

from benchmarks.load.client import fetch_json
from deployments.runtime.messages import Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Counters at one moment.

    Attributes:
        busy_s: Busy time of each core since the machine started, in seconds.
        total_s: All time of each core.
    """

    busy_s: tuple[float, ...]
    total_s: tuple[float, ...]


def read_clocks() -> Clocks:
    """The counters now."""
    times = psutil.cpu_times(percpu=True)
    idle_s = [each.idle + getattr(each, "iowait", 0.0) for each in times]
    # guest time is part of user time already
    total_s = [sum(each) - getattr(each, "guest", 0.0) - getattr(each, "guest_nice", 0.0) for each in times]
    return Clocks(
        busy_s=tuple(total - idle for total, idle in zip(total_s, idle_s, strict=True)), total_s=tuple(total_s)
    )


def busy_share(before: Clocks, after: Clocks, cores: Sequence[int]) -> float | None:
    """Share of the time between two moments that these cores were busy, 0 to 1; None without cores or time."""
    total_s = sum(after.total_s[core] - before.total_s[core] for core in cores)
    busy_s = sum(after.busy_s[core] - before.busy_s[core] for core in cores)
    return busy_s / total_s if total_s > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """What our server says about the device.

    Attributes:
        num_slices: Turns so far.
        allocator_s: Processor time that the allocator's process has used, in seconds.
    """

    num_slices: int
    allocator_s: float


class DeviceWindow:
    """Our server's view of one device, over HTTP."""

    def __init__(self, session: aiohttp.ClientSession, url: str, device: str) -> None:
        """Nothing is asked yet."""
        self._session = session
        self._url = url
        self._device = device

    async def state(self) -> DeviceState:
        """What it says now.

        Raises:
            ServerUnreachableError: If it does not say.
        """
        answers: dict[str, dict[str, Any]] = await fetch_json(self._session, "GET", f"{self._url}/v2/devices")
        (state,) = [each for each in answers.values() if each["device"] == self._device]
        times = psutil.Process(state["pid"]).cpu_times()
        return DeviceState(num_slices=state["num_slices"], allocator_s=times.user + times.system)

    async def slices(self, since: int) -> tuple[Slice, ...]:
        """The turns after the first ``since``.

        Raises:
            ServerUnreachableError: If it does not say.
        """
        address = f"{self._url}/v2/devices/{self._device}/slices?since={since}"
        return msgspec.convert(await fetch_json(self._session, "GET", address), tuple[Slice, ...])
