"""Drives the allocator through virtual time: the same object that grants turns on a real device.

Three kinds of event: a turn ends, a request arrives, the allocator's timer. At equal times the turn ends first, then
requests arrive, then the timer rings. Nothing here knows which policy decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import exp, inf, log
from random import Random

from deployments.scheduling.decision import Decision
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.errors import ModelQueueFullError, QueueFullError, RefusedError
from deployments.scheduling.request import Request, RequestId
from deployments.simulation.costs import NO_COSTS, Costs
from deployments.simulation.device import Slice, Turn

NextRequest = Callable[[Request, float], Request | None]


@dataclass(slots=True, kw_only=True)
class Run:
    """What happened to every request.

    Attributes:
        requests: All of them, in arrival order.
        finish_s: When each ended, virtual seconds, by identity; those refused are missing.
        slices: The turns in order, if they were recorded.
        busy_s: Time the device ran blocks, in seconds.
        num_turns: Turns in all.
    """

    requests: list[Request] = field(default_factory=list)
    finish_s: dict[RequestId, float] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    busy_s: float = 0.0
    num_turns: int = 0


def simulate(
    requests: Sequence[Request],
    allocator: DeviceAllocator,
    *,
    costs: Costs = NO_COSTS,
    seed: int = 0,
    record_slices: bool = False,
    next_request: NextRequest | None = None,
) -> Run:
    """Run all requests on one device.

    Args:
        requests: In arrival order.
        allocator: A fresh one in exclusive mode.
        costs: Hand-over time and noise; what a cut costs is in the requests' block times.
        seed: For the noise.
        record_slices: Keep every turn.
        next_request: Closed loop: called with a request that ended and the time, returns the client's next one.
    """
    return _Simulation(requests, allocator, costs, seed, record_slices, next_request).run()


class _Simulation:
    def __init__(
        self,
        requests: Sequence[Request],
        allocator: DeviceAllocator,
        costs: Costs,
        seed: int,
        record_slices: bool,
        next_request: NextRequest | None,
    ) -> None:
        self._coming = iter(requests)
        self._fed_back: list[tuple[float, int, Request]] = []
        self._allocator = allocator
        self._handover_s = costs.handover_s
        self._stretch = _log_normal(costs.noise_cv, seed) if costs.noise_cv else None
        self._record_slices = record_slices
        self._next_request = next_request
        self._turn: Turn | None = None
        self._previous: RequestId | None = None
        self._blocks_done: dict[RequestId, int] = {}
        self._look_again_s = inf
        self._run = Run()

    def run(self) -> Run:
        arriving = next(self._coming, None)
        while True:
            turn = self._turn
            arrival_s = inf if arriving is None else arriving.arrival_s
            fed_back_s = self._fed_back[0][0] if self._fed_back else inf
            look_s = self._look_again_s
            if turn is not None and turn.end_s <= arrival_s and turn.end_s <= fed_back_s and turn.end_s <= look_s:
                self._end_turn(turn)
            elif arriving is not None and arrival_s <= fed_back_s and arrival_s <= look_s:
                self._submit(arriving)
                arriving = next(self._coming, None)
            elif fed_back_s <= look_s and self._fed_back:
                self._submit(heappop(self._fed_back)[2])
            elif look_s < inf:
                self._report_progress(look_s)
                self._carry_out(self._allocator.on_timer(look_s), look_s)
            else:
                return self._run

    def _submit(self, request: Request) -> None:
        now_s = request.arrival_s
        self._run.requests.append(request)
        self._report_progress(now_s)
        try:
            decision = self._allocator.submit(request, now_s)
        except (RefusedError, QueueFullError, ModelQueueFullError):
            self._end(request, now_s)
            return
        self._carry_out(decision, now_s)

    def _report_progress(self, now_s: float) -> None:
        """What the shell reads from the holder's page before it handles an event."""
        turn = self._turn
        if turn is not None and now_s >= turn.boundaries_s[0]:
            blocks_done = turn.blocks_done(now_s)
            self._allocator.progress(turn.request.request_id, blocks_done, turn.boundary_before(now_s), now_s)

    def _end_turn(self, turn: Turn) -> None:
        now_s = turn.end_s
        request = turn.request
        blocks_done = turn.blocks_done(now_s)
        run = self._run
        run.busy_s += now_s - turn.start_s
        run.num_turns += 1
        if self._record_slices:
            run.slices.append(
                Slice(
                    request_id=request.request_id,
                    model=request.model,
                    first_block=turn.first_block,
                    start_s=turn.start_s,
                    block_ends_s=tuple(turn.boundaries_s[: blocks_done - turn.first_block]),
                )
            )
        self._turn = None
        self._previous = request.request_id
        if blocks_done < len(request.block_times_s):
            self._blocks_done[request.request_id] = blocks_done
            decision = self._allocator.yield_at_boundary(request.request_id, blocks_done=blocks_done, now_s=now_s)
        else:
            self._blocks_done.pop(request.request_id, None)
            run.finish_s[request.request_id] = now_s
            decision = self._allocator.finish(request.request_id, now_s)
            self._end(request, now_s)
        self._carry_out(decision, now_s)

    def _end(self, request: Request, now_s: float) -> None:
        if self._next_request is not None:
            following = self._next_request(request, now_s)
            if following is not None:
                heappush(self._fed_back, (following.arrival_s, len(self._run.requests), following))

    def _carry_out(self, decision: Decision, now_s: float) -> None:
        self._look_again_s = inf if decision.look_again_s is None else decision.look_again_s
        for refusal in decision.refused:
            self._blocks_done.pop(refusal.request.request_id, None)
            self._end(refusal.request, now_s)
        turn = self._turn
        if turn is not None:
            if decision.revoke is not None:
                turn.give_up_after(now_s)
            elif decision.keep is not None:
                turn.go_on()
        elif decision.grants:
            (request,) = decision.grants
            start_s = now_s if request.request_id == self._previous else now_s + self._handover_s
            first_block = self._blocks_done.get(request.request_id, 0)
            self._turn = Turn(request, first_block, start_s, self._stretch)


def _log_normal(cv: float, seed: int) -> Callable[[], float]:
    """Factors with mean 1 and this coefficient of variation."""
    random = Random(seed)
    sigma = log(1.0 + cv * cv) ** 0.5
    return lambda: exp(random.gauss(-0.5 * sigma * sigma, sigma))
