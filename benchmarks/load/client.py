"""The open-loop client: sends every request when its time has come, however slow the server is.

aiohttp was chosen by measuring: a 600 KB POST over loopback cost 0.7 ms of client CPU, httpx 3.4 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.load.arrivals import Arrival
from benchmarks.load.errors import IsolatedTimeUnknownError, ModelFailedError, ServerUnreachableError
from benchmarks.load.inputs import PreparedRequest
from benchmarks.load.report import Outcome
from split_tool.errors import SplitToolError
from split_tool.plan import SplitPlan

# The loop's timer rounds up to a millisecond, as much as a small model's whole run; the rest is spent yielding.
_TIMER_GRAIN_S = 0.0015


def open_session(*, timeout_s: float) -> aiohttp.ClientSession:
    """A session without a bound on connections, so that none waits for another.

    Idle connections are dropped before servers do it (uvicorn: 5 s), because a request on a connection that is
    being closed fails through nobody's fault.
    """
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=4)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=timeout_s))


async def is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    """Whether a server answers at ``url`` and says that it is ready; never raises for one that does not."""
    try:
        async with session.get(f"{url}/v2/health/ready") as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


async def fetch_metadata(session: aiohttp.ClientSession, url: str, models: Sequence[str] = ()) -> dict[str, Any]:
    """Model name -> its metadata, for ``models`` or, without them, for all that the server's index says are ready.

    Raises:
        ServerUnreachableError: If the server does not answer as the protocol says, or has no model.
    """
    names = list(models) or await _index(session, url)
    if not names:
        raise ServerUnreachableError(f"the server at {url} has no model that is ready")
    return {name: await _fetch_json(session, "GET", f"{url}/v2/models/{name}") for name in names}


def isolated_times_s(metadata: Mapping[str, Any], plans: Path) -> dict[str, float]:
    """Isolated time of each model in seconds: what the server states in its metadata, else the plan in ``plans``.

    Raises:
        IsolatedTimeUnknownError: If neither knows it.
    """
    times_s: dict[str, float] = {}
    for model, answer in metadata.items():
        stated_ms = answer.get("parameters", {}).get("isolated_ms")
        if stated_ms is None:
            try:
                stated_ms = SplitPlan.load(plans / model).isolated_ms
            except SplitToolError as error:
                raise IsolatedTimeUnknownError(
                    f"how long does '{model}' take alone? The server does not say (parameters.isolated_ms), and {error}"
                ) from error
        times_s[model] = float(stated_ms) / 1e3
    return times_s


async def measure_alone(
    session: aiohttp.ClientSession, url: str, requests: Mapping[str, PreparedRequest], *, num_repeats: int = 3
) -> dict[str, float]:
    """Median response time of each model over HTTP with nothing else going on, in seconds, after one warm-up.

    Raises:
        ModelFailedError: If a model answers with an error.
    """
    times_s: dict[str, float] = {}
    loop = asyncio.get_running_loop()
    for model, request in requests.items():
        samples_s: list[float] = []
        for _ in range(num_repeats + 1):
            start_s = loop.time()
            failure = await _send(session, url, request)
            samples_s.append(loop.time() - start_s)
            if failure is not None:
                raise ModelFailedError(f"model '{model}' at {url} does not answer: {failure.kind}: {failure.detail}")
        times_s[model] = sorted(samples_s[1:])[num_repeats // 2]
    return times_s


async def run_open_loop(
    session: aiohttp.ClientSession,
    url: str,
    arrivals: Sequence[Arrival],
    requests: Mapping[str, PreparedRequest],
    *,
    on_sent: Callable[[Arrival], None] = lambda arrival: None,
    on_finished: Callable[[Outcome], None] = lambda outcome: None,
) -> tuple[Outcome, ...]:
    """Send every request at its time and wait for all of them.

    Args:
        session: From ``open_session``; its time limit is each request's.
        url: Of the server, without a slash at the end.
        arrivals: In order of time.
        requests: What is sent, by model.
        on_sent: Called when a request goes out.
        on_finished: Called when its answer or failure is there.

    Returns:
        One outcome per arrival, in their order; their times start with the run.
    """
    loop = asyncio.get_running_loop()
    start_s = loop.time()

    async def send(arrival: Arrival) -> Outcome:
        sent_s = loop.time() - start_s
        failure = await _send(session, url, requests[arrival.model])
        outcome = Outcome(
            model=arrival.model,
            scheduled_s=arrival.at_s,
            sent_s=sent_s,
            finished_s=loop.time() - start_s,
            failure=None if failure is None else failure.kind,
            detail="" if failure is None else failure.detail,
        )
        on_finished(outcome)
        return outcome

    tasks: list[asyncio.Task[Outcome]] = []
    async with asyncio.TaskGroup() as group:
        for arrival in arrivals:
            due_s = start_s + arrival.at_s
            if (wait_s := due_s - loop.time() - _TIMER_GRAIN_S) > 0:
                await asyncio.sleep(wait_s)
            while loop.time() < due_s:
                await asyncio.sleep(0)
            tasks.append(group.create_task(send(arrival)))
            on_sent(arrival)
    return tuple(task.result() for task in tasks)


@dataclass(frozen=True, slots=True)
class _Failure:
    kind: str
    detail: str


async def _send(session: aiohttp.ClientSession, url: str, request: PreparedRequest) -> _Failure | None:
    """Why the request failed, None if it was answered."""
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(request.header_length),
    }
    try:
        async with session.post(f"{url}{request.path}", data=request.body, headers=headers) as response:
            answer = await response.read()
            if response.status == 200:
                return None
            return _Failure(f"HTTP {response.status}", answer[:500].decode(errors="replace"))
    except TimeoutError:
        return _Failure("no answer in time", f"waited {session.timeout.total} s")
    except (aiohttp.ClientError, OSError) as error:
        return _Failure(type(error).__name__, str(error))


async def _index(session: aiohttp.ClientSession, url: str) -> list[str]:
    """Names of the models that the server has; those in another state than READY are left out."""
    entries = await _fetch_json(session, "POST", f"{url}/v2/repository/index")
    return [entry["name"] for entry in entries if entry.get("state", "READY") == "READY"]


async def _fetch_json(session: aiohttp.ClientSession, method: str, address: str) -> Any:
    try:
        async with session.request(method, address) as response:
            if response.status != 200:
                raise ServerUnreachableError(
                    f"{method} {address} gives HTTP {response.status}: {(await response.text())[:200]}"
                )
            return await response.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise ServerUnreachableError(f"{method} {address} does not work: {error}") from error
