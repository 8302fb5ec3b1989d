"""When requests go out: at times fixed beforehand, however slow the server is, or each after the last was answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from benchmarks.load.report import Outcome
from deployments.scheduling.request import Request
from deployments.simulation.arrivals import ClosedLoop
from deployments.simulation.workload import Arrival

# The loop's timer rounds up to a millisecond, as much as a small model's whole run; the rest is spent yielding.
_TIMER_GRAIN_S = 0.0015


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request failed.

    Attributes:
        kind: The same words for all failures of that kind.
        detail: The server's or the system's own words.
    """

    kind: str
    detail: str


class Sender(Protocol):
    """One way to a server, with one prepared request per model."""

    async def send(self, model: str) -> Failure | None:
        """Send the model's request and read the answer; None if it was one."""

    async def outputs(self, model: str) -> dict[str, npt.NDArray[Any]]:
        """The answer's arrays by output name.

        Raises:
            ModelFailedError: If the answer is an error.
        """


OnSent = Callable[[Arrival], None]
OnFinished = Callable[[Outcome], None]


async def run_open_loop(
    sender: Sender,
    arrivals: Sequence[Arrival],
    *,
    on_sent: OnSent = lambda arrival: None,
    on_finished: OnFinished = lambda outcome: None,
) -> tuple[Outcome, ...]:
    """Send every request at its time and wait for all of them.

    Args:
        sender: Its time limit is each request's.
        arrivals: In order of time.
        on_sent: Called when a request goes out.
        on_finished: Called when its answer or failure is there.

    Returns:
        One outcome per arrival, in their order; their times start with the run.
    """
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    tasks: list[asyncio.Task[Outcome]] = []
    async with asyncio.TaskGroup() as group:
        for arrival in arrivals:
            await _sleep_until(start_s + arrival.arrival_s)
            tasks.append(group.create_task(_send(sender, arrival, start_s, on_finished)))
            on_sent(arrival)
    return tuple(task.result() for task in tasks)


async def run_closed_loop(
    sender: Sender,
    clients: ClosedLoop,
    *,
    duration_s: float,
    on_sent: OnSent = lambda arrival: None,
    on_finished: OnFinished = lambda outcome: None,
) -> tuple[Outcome, ...]:
    """Clients that send their next request a think time after the last one was answered, until the time is over.

    Returns:
        One outcome per request, by arrival; their times start with the run.
    """
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    outcomes: list[Outcome] = []

    async def client(first: Request) -> None:
        request: Request | None = first
        while request is not None and request.arrival_s < duration_s:
            await _sleep_until(start_s + request.arrival_s)
            arrival = Arrival(arrival_s=request.arrival_s, model=request.model)
            on_sent(arrival)
            outcomes.append(await _send(sender, arrival, start_s, on_finished))
            request = clients.next_request(request, loop.time() - start_s)

    async with asyncio.TaskGroup() as group:
        for first in clients.first:
            group.create_task(client(first))
    return tuple(sorted(outcomes, key=lambda outcome: outcome.scheduled_s))


async def _sleep_until(due_s: float) -> None:
    loop = asyncio.get_running_loop()
    if (wait_s := due_s - loop.time() - _TIMER_GRAIN_S) > 0:
        await asyncio.sleep(wait_s)
    while loop.time() < due_s:
        await asyncio.sleep(0)


async def _send(sender: Sender, arrival: Arrival, start_s: float, on_finished: OnFinished) -> Outcome:
    loop = asyncio.get_running_loop()
    sent_s = loop.time() - start_s
    failure = await sender.send(arrival.model)
    outcome = Outcome(
        model=arrival.model,
        scheduled_s=arrival.arrival_s,
        sent_s=sent_s,
        finished_s=loop.time() - start_s,
        failure=None if failure is None else failure.kind,
        detail="" if failure is None else failure.detail,
    )
    on_finished(outcome)
    return outcome
