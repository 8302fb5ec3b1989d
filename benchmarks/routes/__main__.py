"""Who decides on which device a request runs: its replicas, a thin ingress, or Serve's ingress request router.

    python -m benchmarks.routes             tables; about four minutes
    python -m benchmarks.routes --quick     one short round
    python -m benchmarks.routes --json      one JSON object

One server in Serve's HAProxy mode has the same tiny model three times, each time with a replica on each of the same two
logical CPU devices, which choose by the same function over the same pages of memory:

- **hand-on**: what this project does. HAProxy takes any replica, which hands on what waits less on the other device.
- **thin ingress**: a deployment takes all requests, chooses, and calls the replica by its Serve handle.
- **ingress router**: HAProxy asks a deployment which replica to take (``Application._with_ingress_request_router``).

Closed-loop clients in this process, binary requests over HTTP, the ways in turns, round after round, another one first
in each. ``one busy``: two clients keep one device busy with blocks of about 30 ms of another model; nobody who chooses
well waits for it. ``ratio_p50`` and ``ratio_p99`` are a way's times over those of hand-on: median of the rounds, with
the smallest and largest. With four cores or more the devices are pinned to two of them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

from benchmarks.ingress.measure import Times, closed_loop, ratio, summary
from benchmarks.ingress.payloads import MODEL, make_model, make_payload
from benchmarks.load.client import open_session, post
from benchmarks.load.config_file import write_config
from benchmarks.load.errors import ModelFailedError
from serve_app.config import MODEL_ROUTE, load_config
from serve_app.protocol.client_codec import encode_infer_request
from serve_app.server import Server, free_port, has_haproxy
from split_tool.splitting import split

HAND_ON, THIN, ROUTER = "hand-on", "thin ingress", "ingress router"
PATHS = {HAND_ON: MODEL_ROUTE + MODEL, THIN: "/thin", ROUTER: "/routed"}
SIZES = ("64 B", "600 KB")
BUSY = "busy"
ROUNDS = 5
SECONDS = 0.8
_PRODUCT = 1024
_NUM_BUSY_CLIENTS = 2
_START_LIMIT_S = 120.0
Rounds = list[dict[str, Times]]


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured: a payload by a number of clients, with both devices idle at first or one busy."""

    size: str
    clients: int
    is_one_busy: bool

    def __str__(self) -> str:
        return f"{self.size} x{self.clients}{', one busy' if self.is_one_busy else ''}"


def make_config(folder: Path) -> Path:
    """A configuration file that serves the model in all three ways, and the one that keeps the first device busy."""
    make_model(folder)
    _make_busy_model(folder)
    cores: list[dict[str, Any]] = [{"cores": [0]}, {"cores": [1]}] if (os.cpu_count() or 1) >= 4 else [{}, {}]
    devices = [{"index": index} | pinned for index, pinned in enumerate(cores)]
    model = {"device": {"kind": "cpu"}, "devices": devices}
    as_others = {"model": MODEL, "repository": str(folder / "models")} | model
    return write_config(
        folder / "config.yaml",
        {MODEL: model, BUSY: {"device": {"kind": "cpu"} | devices[0]}},
        repository=folder / "models",
        others=[_other("thin", THIN, as_others), _other("routed", ROUTER, as_others)],
    )


def _other(name: str, way: str, args: dict[str, Any]) -> dict[str, Any]:
    import_path = f"benchmarks.routes.apps:{name}"
    return {"name": name, "route_prefix": PATHS[way], "import_path": import_path, "args": args}


def _make_busy_model(folder: Path) -> None:
    """One product of two matrices, which one thread computes in about 30 ms."""
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["w", "x"], ["moved"]),
            helper.make_node("MatMul", ["moved", "w"], ["matrix"]),
            helper.make_node("ReduceMean", ["matrix"], ["y"], keepdims=0),
        ],
        BUSY,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(np.ones((_PRODUCT, _PRODUCT), np.float32), "w")],
    )
    path = folder / f"{BUSY}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    split(path, folder / "models" / BUSY, blocks=1)


class Clients:
    """Sends requests to one server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        """Nothing is sent yet."""
        self._session = session
        self._url = url

    async def send(self, path: str, request: tuple[bytes, dict[str, str]]) -> bytes:
        """The body of the answer.

        Raises:
            ModelFailedError: If there is none.
        """
        return await post(self._session, f"{self._url}{path}/infer", *request)

    async def wait_until_all_answer(self, request: tuple[bytes, dict[str, str]]) -> None:
        """Return once each way gives the same answer.

        Raises:
            ModelFailedError: If one does not in time, or gives another one.
        """
        wanted = await self.send(PATHS[HAND_ON], request)
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + _START_LIMIT_S
        for who, path in PATHS.items():
            while True:
                try:
                    body = await self.send(path, request)
                    break
                except ModelFailedError:
                    if loop.time() > give_up_s:
                        raise
                    await asyncio.sleep(0.5)
            if body != wanted:
                raise ModelFailedError(f"{who} answers {body[:100]!r} where {HAND_ON} answers {wanted[:100]!r}")

    @asynccontextmanager
    async def keep_busy(self, is_wanted: bool) -> AsyncIterator[None]:
        """Keeps the first device busy as long as the block runs, if that is wanted."""
        request = encode_infer_request({"x": np.zeros(1, np.float32)})
        message = (request.body, {"Inference-Header-Content-Length": str(request.header_length)})

        async def send_on() -> None:
            while True:
                await self.send(MODEL_ROUTE + BUSY, message)

        tasks = [asyncio.create_task(send_on()) for _ in range(_NUM_BUSY_CLIENTS if is_wanted else 0)]
        if tasks:
            await self.send(MODEL_ROUTE + BUSY, message)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, ModelFailedError):
                    raise ended


async def measure(
    url: str, cells: Sequence[Cell], *, rounds: int, seconds: float, console: Console
) -> dict[Cell, Rounds]:
    """All rounds of all cells."""
    found: dict[Cell, Rounds] = {cell: [] for cell in cells}
    payloads = {size: make_payload(size, "binary").ours for size in SIZES}
    ways = list(PATHS)
    async with open_session(timeout_s=60.0) as session:
        clients = Clients(session, url)
        for request in payloads.values():
            await clients.wait_until_all_answer(request)
        console.print("ready", style="dim")
        for index, cell in itertools.product(range(-1, rounds), cells):  # the first one warms up
            times = {}
            turn = index % len(ways)
            async with clients.keep_busy(cell.is_one_busy):
                for who in ways[turn:] + ways[:turn]:
                    send = partial(_discard, clients, PATHS[who], payloads[cell.size])
                    limit_s = seconds if index >= 0 else 0.0
                    times[who] = await closed_loop(send, clients=cell.clients, seconds=limit_s)
            if index >= 0:
                found[cell].append(times)
                medians = ", ".join(f"{who} {np.median(each) * 1e3:.1f} ms" for who, each in times.items())
                console.print(f"round {index + 1} of {rounds}: {cell}: {medians}", style="dim", highlight=False)
    return found


async def _discard(clients: Clients, path: str, request: tuple[bytes, dict[str, str]]) -> None:
    await clients.send(path, request)


def report(found: dict[Cell, Rounds]) -> dict[str, Any]:
    """The JSON object."""
    return {
        "times": {str(cell): summary(rounds) for cell, rounds in found.items()},
        "ratio_p50": {str(cell): _ratios(rounds, 50) for cell, rounds in found.items()},
        "ratio_p99": {str(cell): _ratios(rounds, 99) for cell, rounds in found.items()},
    }


def _ratios(rounds: Rounds, percentile: float) -> dict[str, dict[str, float]]:
    """Each other way over hand-on."""
    return {who: ratio(rounds, percentile, who, over=HAND_ON) for who in (THIN, ROUTER)}


def print_table(answer: dict[str, Any], console: Console) -> None:
    """The same for people."""
    table = Table("payload x clients", title="response times, and their ratio to hand-on (smallest to largest round)")
    for column in ("way", "p50 ms", "p99 ms", "requests", "p50 / hand-on", "p99 / hand-on"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for cell, whose in answer["times"].items():
        key = cell
        for who, figures in whose.items():
            ratios = [answer[name][cell][who] for name in ("ratio_p50", "ratio_p99") if who in answer[name][cell]]
            spreads = (f"{each['ratio']:.2f} ({each['min']:.2f} to {each['max']:.2f})" for each in ratios)
            table.add_row(key, who, *(f"{figures[name]:g}" for name in ("p50_ms", "p99_ms", "count")), *spreads)
            key = ""
    console.print(table)


def parse_options() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.routes", description="Who chooses the device, and what does it cost?"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="one round of short turns")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"interleaved rounds (default {ROUNDS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"length of a turn (default {SECONDS})")
    parser.add_argument("--size", action="append", choices=SIZES, help="only this payload; repeatable")
    parser.add_argument("--clients", action="append", type=int, help="at the same time; repeatable (default 1 and 8)")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.2
    return options


def main() -> int:
    """Run the benchmark."""
    options = parse_options()
    console = Console(stderr=True)
    if not has_haproxy():
        print("error: the ingress request router needs Serve's HAProxy mode, which is not there", file=sys.stderr)
        return 2
    # The server is a session of its own: it would outlive a benchmark that is ended without ending it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cells = [Cell(*each) for each in itertools.product(options.size or SIZES, options.clients or [1, 8], [False, True])]
    with tempfile.TemporaryDirectory(prefix="dlir-routes-") as folder:
        config = load_config(make_config(Path(folder)), port=free_port())
        console.print("starting the server", style="dim")
        with Server(config, use_haproxy=True) as server:
            server.wait_until_ready()
            measuring = measure(server.url, cells, rounds=options.rounds, seconds=options.seconds, console=console)
            answer = report(asyncio.run(measuring))
    if options.json:
        print(json.dumps(answer))
    else:
        print_table(answer, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
