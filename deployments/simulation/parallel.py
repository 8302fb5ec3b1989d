"""Mode ``parallel`` in virtual time: each model has one process, and the processes share the device.

A process runs its model's requests one at a time, in the order in which they came; the next begins when the one before
it has ended. So at most one request per model is *in service*, and all in service have the same speed, as the fair
scheduler of an operating system gives it to processes on one core.

The slow-down model: with n requests in service, each takes 1 + ``interference`` x (n - 1) times as long as alone.
With 1 they share the device and lose nothing (processor sharing), with less the device had room for more than one, with
more they are in each other's way. A request is served for its isolated time; progress is counted in *served time*, the
same for all in service, so that the next to end is the head of a heap. Not in it: hand-over time, noise, what cuts
cost, and that a real scheduler prefers for some milliseconds a process that has just woken up.
"""

from __future__ import annotations

from collections import defaultdict, deque
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
    """Run the models beside each other on one device.

    Args:
        requests: In arrival order.
        allocator: A fresh one in non-exclusive mode; it grants every request when it comes.
        interference: See the module.
        record_slices: Keep when each request was in service, as one turn.
        next_request: As in ``simulate``.
    """
    run = Run()
    coming = [(request.arrival_s, number, request) for number, request in enumerate(requests)]  # a heap, as sorted
    processes = _Processes(interference)
    now_s = 0.0
    while coming or processes.num_in_service:
        end_s = processes.next_end_s(now_s)
        arrival_s = coming[0][0] if coming else inf
        next_s = min(end_s, arrival_s)
        if processes.num_in_service:
            run.busy_s += next_s - now_s
            processes.serve(next_s - now_s)
        now_s = next_s
        if arrival_s < end_s:
            (granted,) = allocator.submit(heappop(coming)[2], now_s).grants
            processes.add(granted, now_s)
            run.requests.append(granted)
            continue
        request, began_s = processes.end_next(now_s)
        allocator.finish(request.request_id, now_s)
        run.finish_s[request.request_id] = now_s
        run.num_turns += 1
        if record_slices:
            run.slices.append(_turn(request, began_s, now_s))
        following = None if next_request is None else next_request(request, now_s)
        if following is not None:
            heappush(coming, (following.arrival_s, len(coming) + len(run.requests), following))
    return run


class _Processes:
    """One per model; the head of each queue is in service. A change costs O(log models)."""

    def __init__(self, interference: float) -> None:
        self._interference = interference
        self._queues: defaultdict[str, deque[Request]] = defaultdict(deque)
        self._ends: list[tuple[float, str, float]] = []  # end in served time, model, begin in virtual time
        self._served_s = 0.0

    @property
    def num_in_service(self) -> int:
        return len(self._ends)

    @property
    def _stretch(self) -> float:
        return 1.0 + self._interference * (len(self._ends) - 1)

    def next_end_s(self, now_s: float) -> float:
        """When the next request ends if none comes before."""
        return now_s + (self._ends[0][0] - self._served_s) * self._stretch if self._ends else inf

    def serve(self, time_s: float) -> None:
        """Time passes in which no request begins or ends."""
        self._served_s += time_s / self._stretch

    def add(self, request: Request, now_s: float) -> None:
        queue = self._queues[request.model]
        queue.append(request)
        if len(queue) == 1:
            self._begin(request, now_s)

    def end_next(self, now_s: float) -> tuple[Request, float]:
        """The next to end has ended; gives it and when it began to be served."""
        self._served_s, model, began_s = heappop(self._ends)
        queue = self._queues[model]
        ended = queue.popleft()
        if queue:
            self._begin(queue[0], now_s)
        return ended, began_s

    def _begin(self, request: Request, now_s: float) -> None:
        heappush(self._ends, (self._served_s + request.isolated_s, request.model, now_s))


def _turn(request: Request, began_s: float, end_s: float) -> Slice:
    return Slice(
        request_id=request.request_id,
        model=request.model,
        first_block=0,
        start_s=began_s,
        block_ends_s=(end_s,),
    )
