"""Mode ``parallel`` in virtual time: all that are there share the device, the same speed for each.

The slow-down model: with n requests there, each takes 1 + ``interference`` x (n - 1) times as long as alone. With 1
they share the device and lose nothing (processor sharing), with less the device had room for more than one, with more
they are in each other's way. A request is served for its isolated time; progress is counted in *served time*, the same
for all that are there, so that the next to end is the head of a heap. Hand-over time, noise and what cuts cost do not
count here.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.request import Request
from deployments.simulation.device import Slice
from deployments.simulation.simulator import NextRequest, Run


def simulate_parallel(
    requests: Sequence[Request],
    allocator: DeviceAllocator,
    *,
    interference: float,
    record_slices: bool = False,
    next_request: NextRequest | None = None,
) -> Run:
    """Run all requests at once on one device.

    Args:
        requests: In arrival order.
        allocator: A fresh one in non-exclusive mode; it grants every request when it comes.
        interference: See the module.
        record_slices: Keep what each request had of the device, as one turn.
        next_request: As in ``simulate``.
    """
    run = Run()
    coming = [(request.arrival_s, number, request) for number, request in enumerate(requests)]  # a heap, as sorted
    present: list[tuple[float, int, Request]] = []
    served_s = now_s = 0.0
    while coming or present:
        stretch = 1.0 + interference * (len(present) - 1)
        end_s = now_s + (present[0][0] - served_s) * stretch if present else inf
        arrival_s = coming[0][0] if coming else inf
        next_s = min(end_s, arrival_s)
        if present:
            run.busy_s += next_s - now_s
            served_s += (next_s - now_s) / stretch
        now_s = next_s
        if arrival_s < end_s:
            request = heappop(coming)[2]
            (granted,) = allocator.submit(request, now_s).grants
            heappush(present, (served_s + granted.isolated_s, len(run.requests), granted))
            run.requests.append(request)
            continue
        served_s, _, request = heappop(present)
        allocator.finish(request.request_id, now_s)
        run.finish_s[request.request_id] = now_s
        run.num_turns += 1
        if record_slices:
            run.slices.append(_whole_stay(request, now_s))
        following = None if next_request is None else next_request(request, now_s)
        if following is not None:
            heappush(coming, (following.arrival_s, len(coming) + len(run.requests), following))
    return run


def _whole_stay(request: Request, end_s: float) -> Slice:
    return Slice(
        request_id=request.request_id,
        model=request.model,
        first_block=0,
        start_s=request.arrival_s,
        block_ends_s=(end_s,),
    )
