"""The open-loop client against a slow server in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from benchmarks.load.client import (
    HttpSender,
    fetch_metadata,
    is_ready,
    isolated_times_s,
    measure_alone,
    open_session,
)
from benchmarks.load.errors import IsolatedTimeUnknownError, ModelFailedError, ServerUnreachableError
from benchmarks.load.inputs import PreparedRequest
from benchmarks.load.loops import run_closed_loop, run_open_loop
from deployments.simulation.arrivals import ClosedLoop
from deployments.simulation.models import models_from_times
from deployments.simulation.workload import Arrival

ANSWER_TIME_S = 0.2


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A server whose model ``slow`` takes its time and whose model ``full`` refuses."""

    async def ready(request: web.Request) -> web.Response:
        return web.Response()

    async def index(request: web.Request) -> web.Response:
        states = {"slow": "READY", "broken": "UNAVAILABLE"}
        return web.json_response([{"name": name, "state": state} for name, state in states.items()])

    async def metadata(request: web.Request) -> web.Response:
        return web.json_response({"name": "slow", "inputs": [], "parameters": {"isolated_ms": 200}})

    async def infer(request: web.Request) -> web.Response:
        if request.match_info["model"] == "full":
            return web.json_response({"error": "the queue is full"}, status=503)
        await request.read()
        await asyncio.sleep(ANSWER_TIME_S)
        return web.Response(body=b"{}")

    application = web.Application()
    application.router.add_get("/v2/health/ready", ready)
    application.router.add_post("/v2/repository/index", index)
    application.router.add_get("/v2/models/slow", metadata)
    application.router.add_post("/v2/models/{model}/infer", infer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def request_for(model: str) -> PreparedRequest:
    return PreparedRequest(path=f"/v2/models/{model}/infer", body=b"{}", header_length=2)


async def test_requests_go_out_at_their_time_however_slow_the_answers_are(url: str) -> None:
    arrivals = [Arrival(arrival_s=index * 0.005, model="slow") for index in range(20)]
    seen: list[str] = []
    async with open_session(timeout_s=10) as session:
        outcomes = await run_open_loop(
            HttpSender(session, url, {"slow": request_for("slow")}),
            arrivals,
            on_sent=lambda arrival: seen.append("sent"),
            on_finished=lambda outcome: seen.append("finished"),
        )
    assert seen.index("finished") >= 15  # a closed loop would have sent one by then
    assert len(outcomes) == 20
    for arrival, outcome in zip(arrivals, outcomes, strict=True):
        assert outcome.failure is None
        assert outcome.scheduled_s == arrival.arrival_s
        assert outcome.lateness_s >= 0
        assert outcome.finished_s - outcome.sent_s >= ANSWER_TIME_S * 0.9


async def test_a_refusal_and_a_timeout_are_failures_of_their_kind(url: str) -> None:
    requests = {"full": request_for("full"), "slow": request_for("slow")}
    arrivals = [Arrival(arrival_s=0, model="full"), Arrival(arrival_s=0, model="slow")]
    async with open_session(timeout_s=0.05) as session:
        outcomes = await run_open_loop(HttpSender(session, url, requests), arrivals)
    assert [outcome.failure for outcome in outcomes] == ["HTTP 503", "no answer in time"]
    assert "the queue is full" in outcomes[0].detail


async def test_models_and_their_times_come_from_the_server(url: str) -> None:
    async with open_session(timeout_s=10) as session:
        assert await is_ready(session, url)
        metadata = await fetch_metadata(session, url)
        assert list(metadata) == ["slow"]
        assert isolated_times_s(metadata, Path("nowhere")) == {"slow": 0.2}
        sender = HttpSender(session, url, {model: request_for(model) for model in ("slow", "full")})
        alone_s = await measure_alone(sender, ["slow"], num_repeats=1)
        assert alone_s["slow"] >= ANSWER_TIME_S * 0.9
        with pytest.raises(ModelFailedError, match=r"'full'.*503.*queue is full"):
            await measure_alone(sender, ["full"])
        with pytest.raises(ServerUnreachableError, match="404"):
            await fetch_metadata(session, url, ["unknown"])


async def test_nothing_at_the_url_is_not_ready_and_named(unused_tcp_port: int) -> None:
    nowhere = f"http://127.0.0.1:{unused_tcp_port}"
    async with open_session(timeout_s=1) as session:
        assert not await is_ready(session, nowhere)
        with pytest.raises(ServerUnreachableError, match=nowhere):
            await fetch_metadata(session, nowhere)


def test_an_unknown_isolated_time_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(IsolatedTimeUnknownError, match=r"'m'.*split_tool split"):
        isolated_times_s({"m": {"inputs": []}}, tmp_path)


async def test_a_closed_loop_has_as_many_requests_under_way_as_clients_and_no_more(url: str) -> None:
    clients = ClosedLoop(
        list(models_from_times({"slow": 0.2}).values()), num_clients=3, think_s=0.01, num_requests=100, alpha=4, seed=0
    )
    under_way = peak = 0

    def count(change: int) -> None:
        nonlocal under_way, peak
        under_way += change
        peak = max(peak, under_way)

    async with open_session(timeout_s=10) as session:
        outcomes = await run_closed_loop(
            HttpSender(session, url, {"slow": request_for("slow")}),
            clients,
            duration_s=0.5,
            on_sent=lambda arrival: count(1),
            on_finished=lambda outcome: count(-1),
        )
    assert peak == 3
    assert 6 <= len(outcomes) <= 9  # 0.5 s are two answers of each client, and a third that was sent before the end
    assert all(outcome.failure is None for outcome in outcomes)
