"""Ways to choose one of several devices for a request: ours and those to compare it with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Protocol

from deployments.scheduling.request import Request
from deployments.scheduling.routing import Choosable, choose_device


class Queue(Choosable, Protocol):
    """A device that also tells how many requests it has."""

    @property
    def num_requests(self) -> int:
        """How many hold the device or wait for it."""


Router = Callable[[Sequence[Queue], Request, float, int], int]
"""Takes the devices, a request, the time and the device where the request comes in; gives the number of a device."""


def make_predicted(hop_s: float, seed: int) -> Router:
    """The least predicted wait for this request, ``deployments.scheduling.routing``."""
    return lambda devices, request, now_s, first: choose_device(devices, request, now_s, first=first, hop_s=hop_s)


def make_least_work(hop_s: float, seed: int) -> Router:
    """The least predicted run time of all that are there."""
    return lambda devices, request, now_s, first: _least(devices, first, lambda each: each.work_s(now_s))


def make_shortest_queue(hop_s: float, seed: int) -> Router:
    """The fewest requests."""
    return lambda devices, request, now_s, first: _least(devices, first, lambda each: each.num_requests)


def make_random(hop_s: float, seed: int) -> Router:
    """Any: where the request comes in."""
    return lambda devices, request, now_s, first: first


def make_round_robin(hop_s: float, seed: int) -> Router:
    """One after the other."""
    numbers = count()
    return lambda devices, request, now_s, first: next(numbers) % len(devices)


ROUTERS: Mapping[str, Callable[[float, int], Router]] = {
    "predicted": make_predicted,
    "least_work": make_least_work,
    "shortest_queue": make_shortest_queue,
    "random": make_random,
    "round_robin": make_round_robin,
}


AT_THE_DOOR = frozenset({"random", "round_robin"})
"""What a proxy does that knows nothing of the devices: the request comes in where it stays, there is no hop."""


def within_nodes(router: Router, num_per_node: int) -> Router:
    """Chooses among the devices of the node where a request comes in."""

    def choose(devices: Sequence[Queue], request: Request, now_s: float, first: int) -> int:
        start = first - first % num_per_node
        return start + router(devices[start : start + num_per_node], request, now_s, first - start)

    return choose


def _least(devices: Sequence[Queue], first: int, key: Callable[[Queue], float]) -> int:
    """The device with the smallest key; of several the next from ``first`` on."""
    num_devices = len(devices)
    numbers = (number % num_devices for number in range(first, first + num_devices))
    return min(numbers, key=lambda number: key(devices[number]))
