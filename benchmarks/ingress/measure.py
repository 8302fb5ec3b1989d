"""Closed-loop clients: each sends its next request when the last one is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np

from benchmarks.ingress.payloads import MODEL, Form, Payload
from benchmarks.load.client import open_session, post
from benchmarks.load.grpc_infer import open_infer

OURS = "dlir-serve"
PLAIN = "plain, same mode"
PLAIN_DEFAULT = "plain, default mode"
GRPC = "dlir-serve gRPC"
_ANSWER_LIMIT_S = 120.0

Send = Callable[[], Awaitable[None]]
Times = np.ndarray


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured: a payload by a number of clients at the same time."""

    size: str
    form: Form
    clients: int


@asynccontextmanager
async def senders(
    url: str, default_url: str, grpc_address: str, model: str = MODEL
) -> AsyncIterator[Callable[[Payload], dict[str, Send]]]:
    """Gives, for a payload, one way to send it per rival."""
    async with open_session(timeout_s=_ANSWER_LIMIT_S) as session, open_infer(grpc_address) as infer:

        def http(address: str, request: tuple[bytes, dict[str, str]]) -> Send:
            async def send() -> None:
                await post(session, address, *request)

            return send

        def make(payload: Payload) -> dict[str, Send]:
            ways = {
                OURS: http(f"{url}/v2/models/{model}/infer", payload.ours),
                PLAIN: http(f"{url}/plain", payload.plain),
                PLAIN_DEFAULT: http(f"{default_url}/plain", payload.plain),
            }
            if payload.grpc is not None:
                message = payload.grpc
                ways[GRPC] = lambda: infer(message, timeout=_ANSWER_LIMIT_S)
            return ways

        yield make


async def closed_loop(send: Send, *, clients: int, seconds: float) -> Times:
    """Response times of all requests, in seconds; each client sends at least one.

    Raises:
        ModelFailedError: If one is not answered.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + seconds
    times_s: list[float] = []

    async def client() -> None:
        while True:
            start_s = loop.time()
            await send()
            times_s.append(loop.time() - start_s)
            if loop.time() > end_s:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return np.array(times_s)


def summary(rounds: Sequence[Mapping[str, Times]]) -> dict[str, dict[str, float]]:
    """For each rival, over all rounds of a cell: milliseconds and number of requests."""
    found = {}
    for who in rounds[0]:
        times_s = np.concatenate([each[who] for each in rounds])
        found[who] = {
            "p50_ms": round(float(np.percentile(times_s, 50)) * 1e3, 2),
            "p99_ms": round(float(np.percentile(times_s, 99)) * 1e3, 2),
            "count": len(times_s),
        }
    return found


def ratios(rounds: Sequence[Mapping[str, Times]], percentile: float) -> dict[str, dict[str, float]]:
    """Our HTTP over each plain rival."""
    return {who: ratio(rounds, percentile, OURS, over=who) for who in (PLAIN, PLAIN_DEFAULT)}


def ratio(rounds: Sequence[Mapping[str, Times]], percentile: float, who: str, *, over: str) -> dict[str, float]:
    """The times of one rival over those of another: the median of the rounds' ratios, their smallest and largest."""
    of_rounds = [float(np.percentile(each[who], percentile) / np.percentile(each[over], percentile)) for each in rounds]
    return {
        "ratio": round(float(np.median(of_rounds)), 3),
        "min": round(min(of_rounds), 3),
        "max": round(max(of_rounds), 3),
    }
