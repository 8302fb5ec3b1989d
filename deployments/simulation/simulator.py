"""Drives allocators through virtual time: the same objects that grant turns on real devices.

Three kinds of event: a turn ends, a request comes to a device, an allocator's timer. At equal times turns end first,
then requests come, then timers ring. Nothing here knows which policy decides, nor how a device is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import exp, inf, log
from random import Random

from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.errors import ModelQueueFullError, QueueFullError, RefusedError
from deployments.scheduling.request import Request, RequestId
from deployments.simulation.costs import NO_COSTS, Costs
from deployments.simulation.device import Slice
from deployments.simulation.routers import Router
from deployments.simulation.simulated_device import SimulatedDevice

NextRequest = Callable[[Request, float], Request | None]


_TURN_ENDS, _TIMER = 0, 1


@dataclass(slots=True, kw_only=True)
class Run:
    """What happened to every request.

    Attributes:
        requests: All of them, in arrival order.
        finish_s: When each ended, virtual seconds, by identity; those refused are missing.
        slices: The turns in order of their ends, if they were recorded.
        busy_s: Time the devices ran blocks, in seconds, all taken together.
        num_turns: Turns in all.
        num_devices: Devices.
        num_hops: Requests that went to another device than the one where they came in.
    """

    requests: list[Request] = field(default_factory=list)
    finish_s: dict[RequestId, float] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    busy_s: float = 0.0
    num_turns: int = 0
    num_devices: int = 1
    num_hops: int = 0


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
    devices = _devices([allocator], costs, seed)
    return _Simulation(requests, devices, None, 0.0, seed, record_slices, next_request).run()


def simulate_devices(
    requests: Sequence[Request],
    allocators: Sequence[DeviceAllocator],
    router: Router,
    *,
    costs: Costs = NO_COSTS,
    seed: int = 0,
) -> Run:
    """Run all requests on several devices; each comes in at a random one and goes where the router says.

    Args:
        requests: In arrival order.
        allocators: Fresh ones in exclusive mode, one a device.
        router: Chooses the device.
        costs: As in ``simulate``, and what it takes to go from one device to another.
        seed: For the noise, and for where requests come in.
    """
    devices = _devices(allocators, costs, seed)
    return _Simulation(requests, devices, router, costs.hop_s, seed, False, None).run()


def _devices(allocators: Sequence[DeviceAllocator], costs: Costs, seed: int) -> list[SimulatedDevice]:
    stretch = _log_normal(costs.noise_cv, seed) if costs.noise_cv else None
    return [SimulatedDevice(allocator, handover_s=costs.handover_s, stretch=stretch) for allocator in allocators]


class _Simulation:
    def __init__(
        self,
        requests: Sequence[Request],
        devices: Sequence[SimulatedDevice],
        router: Router | None,
        hop_s: float,
        seed: int,
        record_slices: bool,
        next_request: NextRequest | None,
    ) -> None:
        self._coming = iter(requests)
        self._fed_back: list[tuple[float, int, Request]] = []
        self._devices = devices
        self._router = router
        self._hop_s = hop_s
        self._entrances = Random(seed)
        self._on_the_way: list[tuple[float, int, int, Request]] = []
        self._events: list[tuple[float, int, int]] = []  # what is no longer so is passed over
        self._record_slices = record_slices
        self._next_request = next_request
        self._run = Run(num_devices=len(devices))

    def run(self) -> Run:
        arriving = next(self._coming, None)
        while True:
            event_s, kind, number = self._next_event()
            arrival_s = inf if arriving is None else arriving.arrival_s
            fed_back_s = self._fed_back[0][0] if self._fed_back else inf
            on_the_way_s = self._on_the_way[0][0] if self._on_the_way else inf
            request_s = min(arrival_s, fed_back_s, on_the_way_s)
            if event_s < request_s or (event_s == request_s < inf and kind == _TURN_ENDS):
                heappop(self._events)
                self._handle(number, kind, event_s)
            elif request_s == inf:
                return self._run
            elif arriving is not None and arrival_s == request_s:
                self._arrive(arriving)
                arriving = next(self._coming, None)
            elif fed_back_s == request_s:
                self._arrive(heappop(self._fed_back)[2])
            else:
                _, _, number, request = heappop(self._on_the_way)
                self._submit(number, request, request_s)

    def _next_event(self) -> tuple[float, int, int]:
        while self._events:
            event_s, kind, number = event = self._events[0]
            device = self._devices[number]
            if event_s == (device.turn_end_s if kind == _TURN_ENDS else device.look_again_s):
                return event
            heappop(self._events)
        return inf, _TIMER, 0

    def _arrive(self, request: Request) -> None:
        now_s = request.arrival_s
        self._run.requests.append(request)
        if self._router is None:
            self._submit(0, request, now_s)
            return
        entrance = self._entrances.randrange(len(self._devices))
        number = self._router(self._devices, request, now_s, entrance)
        if number == entrance or not self._hop_s:
            self._submit(number, request, now_s)
            return
        self._run.num_hops += 1
        heappush(self._on_the_way, (now_s + self._hop_s, len(self._run.requests), number, request))

    def _submit(self, number: int, request: Request, now_s: float) -> None:
        try:
            refused = self._devices[number].submit(request, now_s)
        except (RefusedError, QueueFullError, ModelQueueFullError):
            self._end(request, now_s)
            return
        self._note(number, refused, now_s)

    def _handle(self, number: int, kind: int, now_s: float) -> None:
        device, run = self._devices[number], self._run
        if kind == _TIMER:
            self._note(number, device.ring(), now_s)
            return
        turn, ended, refused = device.end_turn()
        run.busy_s += now_s - turn.start_s
        run.num_turns += 1
        if self._record_slices:
            run.slices.append(turn)
        if ended is not None:
            run.finish_s[ended.request_id] = now_s
            self._end(ended, now_s)
        self._note(number, refused, now_s)

    def _note(self, number: int, refused: Sequence[Request], now_s: float) -> None:
        """What a device does next is known anew."""
        device = self._devices[number]
        for event_s, kind in ((device.turn_end_s, _TURN_ENDS), (device.look_again_s, _TIMER)):
            if event_s < inf:
                heappush(self._events, (event_s, kind, number))
        for request in refused:
            self._end(request, now_s)

    def _end(self, request: Request, now_s: float) -> None:
        if self._next_request is not None:
            following = self._next_request(request, now_s)
            if following is not None:
                heappush(self._fed_back, (following.arrival_s, len(self._run.requests), following))


def _log_normal(cv: float, seed: int) -> Callable[[], float]:
    """Factors with mean 1 and this coefficient of variation."""
    random = Random(seed)
    sigma = log(1.0 + cv * cv) ** 0.5
    return lambda: exp(random.gauss(-0.5 * sigma * sigma, sigma))
