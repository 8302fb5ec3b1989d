"""The fewest late requests that any schedule could have had, knowing all arrivals beforehand.

A schedule matters only through how far each request is: a vector of finished blocks. Of two schedules with the same
vector the one that got there earlier is never worse, so it is enough to know the earliest time for each vector that can
be reached with every finished request on time; requests that will be late run after all others and need no place in it.
Exhaustive: the number of vectors is the product of (blocks + 1) over the requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from deployments.scheduling.request import Request
from deployments.simulation.errors import TooManyRequestsError

MAX_VECTORS = 300_000


def fewest_late(requests: Sequence[Request]) -> int:
    """The smallest possible number of requests that end after their deadline; blocks are never interrupted.

    Raises:
        TooManyRequestsError: If there are more than ``MAX_VECTORS`` vectors.
    """
    sizes = [len(request.block_times_s) for request in requests]
    if prod(size + 1 for size in sizes) > MAX_VECTORS:
        raise TooManyRequestsError(len(requests), MAX_VECTORS)
    most_on_time = 0
    layer = {tuple(0 for _ in requests): min((request.arrival_s for request in requests), default=0.0)}
    while layer:
        following: dict[tuple[int, ...], float] = {}
        for vector, reached_s in layer.items():
            num_done = sum(done == size for done, size in zip(vector, sizes, strict=True))
            most_on_time = max(most_on_time, num_done)
            for index, request in enumerate(requests):
                done = vector[index]
                if done == sizes[index]:
                    continue
                end_s = max(reached_s, request.arrival_s) + request.block_times_s[done]
                if end_s + sum(request.block_times_s[done + 1 :]) > request.deadline_s:
                    continue
                moved = (*vector[:index], done + 1, *vector[index + 1 :])
                if end_s < following.get(moved, float("inf")):
                    following[moved] = end_s
        layer = following
    return len(requests) - most_on_time
