"""On which of several devices a request goes: where it waits least, as each device's own policy predicts.

A forecast costs what the policy makes of the queue, so not every device is asked: one that is idle needs none, and
where nobody is, the next few are asked and not all. Those with the least work would be no better ones to ask: under
overload the work that is there says little about the wait of one request (``docs/scale.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Protocol

from deployments.scheduling.request import Request

MAX_FORECASTS = 4
"""How many devices are asked beside the one where a request is."""


class Choosable(Protocol):
    """What is to be known of a device to choose it; ``DeviceAllocator`` is one."""

    @property
    def is_idle(self) -> bool:
        """Whether nobody holds the device or waits for it."""

    def work_s(self, now_s: float) -> float:
        """Predicted run time of all that hold the device or wait for it, in seconds."""

    def predicted_wait_s(self, request: Request, now_s: float, limit_s: float = inf) -> float:
        """How long the request would wait there for its first turn, in seconds; if over ``limit_s``, any such time."""


def choose_device(
    devices: Sequence[Choosable],
    request: Request,
    now_s: float,
    *,
    first: int = 0,
    hop_s: float = 0.0,
    max_forecasts: int = MAX_FORECASTS,
) -> int:
    """Number of the device on which the request waits least; on equal terms where it is, then the one with less work.

    Args:
        devices: At least one.
        request: What came.
        now_s: Current monotonic time.
        first: Where the request is now; it stays there unless going elsewhere pays. Without such a place any number,
            best another one each time, so that idle devices share the load.
        hop_s: What it costs to go from ``first`` to another device, in seconds.
        max_forecasts: How many of the devices next to ``first`` are asked for a forecast.
    """
    if devices[first].is_idle:
        return first
    num_devices = len(devices)
    others = [number % num_devices for number in range(first + 1, first + num_devices)]
    idle = next((number for number in others if devices[number].is_idle), None)
    if idle is not None:
        stays = hop_s > 0.0 and devices[first].predicted_wait_s(request, now_s) <= hop_s
        return first if stays else idle
    chosen, least_s = first, devices[first].predicted_wait_s(request, now_s)
    for number in others[:max_forecasts]:
        cost_s = devices[number].predicted_wait_s(request, now_s, least_s - hop_s) + hop_s
        if cost_s < least_s or (
            cost_s == least_s
            and (chosen != first or hop_s == 0.0)
            and devices[number].work_s(now_s) < devices[chosen].work_s(now_s)
        ):
            chosen, least_s = number, cost_s
    return chosen
