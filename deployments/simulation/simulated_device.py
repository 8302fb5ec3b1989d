"""One simulated device: its allocator and what the shell does around it, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from deployments.scheduling.decision import Decision
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.request import Request, RequestId
from deployments.simulation.device import Slice, Turn


class SimulatedDevice:
    """A device that runs the requests its allocator grants; can be chosen by a router.

    Args:
        allocator: A fresh one in exclusive mode.
        handover_s: Device idle when it changes from one request to another, in seconds.
        stretch: Gives the factor by which the next block takes longer than predicted; None: always 1.

    Attributes:
        turn: The turn in progress.
        look_again_s: When the allocator's timer rings, virtual seconds; infinity: not at all.
    """

    def __init__(
        self, allocator: DeviceAllocator, *, handover_s: float, stretch: Callable[[], float] | None = None
    ) -> None:
        self._allocator = allocator
        self._handover_s = handover_s
        self._stretch = stretch
        self.turn: Turn | None = None
        self.look_again_s = inf
        self._previous: RequestId | None = None
        self._blocks_done: dict[RequestId, int] = {}

    @property
    def turn_end_s(self) -> float:
        """When the turn in progress ends, virtual seconds; infinity: none is."""
        return inf if self.turn is None else self.turn.end_s

    @property
    def num_requests(self) -> int:
        """How many hold the device or wait for it."""
        return self._allocator.num_waiting + (self.turn is not None)

    @property
    def is_idle(self) -> bool:
        """Whether nobody holds the device or waits for it."""
        return self._allocator.is_idle

    def work_s(self, now_s: float) -> float:
        """See ``DeviceAllocator.work_s``."""
        self._report_progress(now_s)
        return self._allocator.work_s(now_s)

    def predicted_wait_s(self, request: Request, now_s: float, limit_s: float = inf) -> float:
        """See ``DeviceAllocator.predicted_wait_s``."""
        self._report_progress(now_s)
        return self._allocator.predicted_wait_s(request, now_s, limit_s)

    def submit(self, request: Request, now_s: float) -> list[Request]:
        """A request comes; gives those that are refused because of that.

        Raises:
            SchedulingError: If the allocator does not take it.
        """
        self._report_progress(now_s)
        return self._carry_out(self._allocator.submit(request, now_s), now_s)

    def ring(self) -> list[Request]:
        """The allocator's timer rings; gives those that are refused."""
        now_s = self.look_again_s
        self._report_progress(now_s)
        return self._carry_out(self._allocator.on_timer(now_s), now_s)

    def end_turn(self) -> tuple[Slice, Request | None, list[Request]]:
        """The turn in progress ends; gives what was run, the request if that was its last turn, those refused."""
        turn = self.turn
        assert turn is not None
        now_s, request = turn.end_s, turn.request
        blocks_done = turn.blocks_done(now_s)
        run = Slice(
            request_id=request.request_id,
            model=request.model,
            first_block=turn.first_block,
            start_s=turn.start_s,
            block_ends_s=tuple(turn.boundaries_s[: blocks_done - turn.first_block]),
        )
        self.turn = None
        self._previous = request.request_id
        if blocks_done < len(request.block_times_s):
            self._blocks_done[request.request_id] = blocks_done
            decision = self._allocator.yield_at_boundary(request.request_id, blocks_done=blocks_done, now_s=now_s)
            return run, None, self._carry_out(decision, now_s)
        self._blocks_done.pop(request.request_id, None)
        return run, request, self._carry_out(self._allocator.finish(request.request_id, now_s), now_s)

    def _report_progress(self, now_s: float) -> None:
        """What the shell reads from the holder's page before it handles an event."""
        turn = self.turn
        if turn is not None and now_s >= turn.boundaries_s[0]:
            blocks_done = turn.blocks_done(now_s)
            self._allocator.progress(turn.request.request_id, blocks_done, turn.boundary_before(now_s), now_s)

    def _carry_out(self, decision: Decision, now_s: float) -> list[Request]:
        self.look_again_s = inf if decision.look_again_s is None else decision.look_again_s
        for refusal in decision.refused:
            self._blocks_done.pop(refusal.request.request_id, None)
        turn = self.turn
        if turn is not None:
            if decision.revoke is not None:
                turn.give_up_after(now_s)
            elif decision.keep is not None:
                turn.go_on()
        elif decision.grants:
            (request,) = decision.grants
            start_s = now_s if request.request_id == self._previous else now_s + self._handover_s
            self.turn = Turn(request, self._blocks_done.get(request.request_id, 0), start_s, self._stretch)
        return [refusal.request for refusal in decision.refused]
