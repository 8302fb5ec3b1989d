"""What our way around the device costs, beside a plain Ray Serve deployment of the same model.

    python -m benchmarks.ingress             a table; about eight minutes
    python -m benchmarks.ingress --quick     one short round
    python -m benchmarks.ingress --json      one JSON object
    python -m benchmarks.ingress --model models/resnet50   another model, whole in both, binary

Two servers run at the same time, one in Serve's HAProxy mode (where it is there) and one in Serve's default mode; both
have our deployment and a plain one (``benchmarks.ingress.plain``) of the same session: one thread, on core 0 where
there are two cores, with everything else off it. The model costs next to nothing. The rivals are measured one after the
other in short turns, round after round, by closed-loop clients in this process. ``ratio_p50`` and ``ratio_p99`` are our
HTTP over the plain deployment's: median of the rounds, with the smallest and largest.
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
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.ingress.measure import Cell, Times, closed_loop, ratios, senders, summary
from benchmarks.ingress.payloads import (
    MODEL,
    PAYLOAD_BYTES,
    Subject,
    make_config,
    make_payload,
    payload_of,
    subject_of,
)
from serve_app.config import load_config
from serve_app.server import Server, free_port
from split_tool.errors import SplitToolError

ROUNDS = 5
SECONDS = 0.8
Rounds = dict[Cell, list[dict[str, Times]]]


def run(options: argparse.Namespace, console: Console) -> Rounds:
    """Start both servers, measure, end them."""
    subject = options.subject
    sizes, forms = (options.size, options.form) if subject is None else ([subject.model], ["binary"])
    cells = [Cell(size, form, clients) for size, form, clients in itertools.product(sizes, forms, options.clients)]
    cores = [0] if (os.cpu_count() or 1) > 1 else []
    with tempfile.TemporaryDirectory(prefix="dlir-ingress-") as folder:
        path = make_config(Path(folder), cores, subject)
        ports = [free_port() for _ in range(4)]
        config = load_config(path, port=ports[0], grpc_port=ports[1])
        default_config = load_config(path, port=ports[2], grpc_port=ports[3])
        console.print("starting two servers", style="dim")
        with Server(config) as server, Server(default_config, use_haproxy=False) as default_server:
            server.wait_until_ready()
            default_server.wait_until_ready()
            console.print("ready", style="dim")
            if not server.uses_haproxy:
                console.print("no HAProxy here: both servers run in Serve's default mode", style="yellow")
            addresses = server.url, default_server.url, f"127.0.0.1:{ports[1]}"
            return asyncio.run(measure(addresses, cells, subject, options.rounds, options.seconds, console))


async def measure(
    addresses: tuple[str, str, str],
    cells: list[Cell],
    subject: Subject | None,
    rounds: int,
    seconds: float,
    console: Console,
) -> Rounds:
    """All rounds; the rivals take turns within a cell, another one first in each round."""
    found: Rounds = {cell: [] for cell in cells}
    async with senders(*addresses, MODEL if subject is None else subject.model) as make:
        for index, cell in itertools.product(range(rounds), cells):
            payload = make_payload(cell.size, cell.form) if subject is None else payload_of(subject)
            ways = list(make(payload).items())
            if index == 0:
                for _who, send in ways:
                    await closed_loop(send, clients=1, seconds=0)  # warms up
            turn = index % len(ways)
            found[cell].append(
                {
                    who: await closed_loop(send, clients=cell.clients, seconds=seconds)
                    for who, send in ways[turn:] + ways[:turn]
                }
            )
            console.print(
                f"round {index + 1} of {rounds}: {cell.size} {cell.form} x{cell.clients}: "
                + ", ".join(f"{who} {np.median(times) * 1e3:.1f} ms" for who, times in found[cell][-1].items()),
                style="dim",
                highlight=False,
            )
    return found


def report(found: Rounds) -> dict[str, Any]:
    """The JSON object."""
    keys = {cell: f"{cell.size} {cell.form} x{cell.clients}" for cell in found}
    return {
        "times": {keys[cell]: summary(rounds) for cell, rounds in found.items()},
        "ratio_p50": {keys[cell]: ratios(rounds, 50) for cell, rounds in found.items()},
        "ratio_p99": {keys[cell]: ratios(rounds, 99) for cell, rounds in found.items()},
    }


def print_tables(answer: dict[str, Any], console: Console) -> None:
    """The same for people."""
    times = Table("payload x clients", "who", "p50 ms", "p99 ms", "requests", title="response times")
    for key, whose in answer["times"].items():
        for who, figures in whose.items():
            times.add_row(key, who, *(f"{figures[name]:g}" for name in ("p50_ms", "p99_ms", "count")))
            key = ""
    console.print(times)
    table = Table("payload x clients", "over", "p50", "p99", title="ours over plain (smallest to largest round)")
    for key, whose in answer["ratio_p50"].items():
        for who, p50 in whose.items():
            p99 = answer["ratio_p99"][key][who]
            table.add_row(key, who, *(f"{r['ratio']:.2f} ({r['min']:.2f} to {r['max']:.2f})" for r in (p50, p99)))
    console.print(table)


def parse_options() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.ingress", description="What does the way around the device cost?")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="one round of short turns")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"interleaved rounds (default {ROUNDS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"length of a turn (default {SECONDS})")
    parser.add_argument("--size", action="append", choices=list(PAYLOAD_BYTES), help="only this payload; repeatable")
    parser.add_argument("--form", action="append", choices=["binary", "json"], help="only this form; repeatable")
    parser.add_argument("--model", type=Path, metavar="DIR", help="the model of this split plan instead, binary")
    parser.add_argument("--clients", action="append", type=int, help="at the same time; repeatable (default 1 and 16)")
    options = parser.parse_args()
    if options.model is not None and (options.size or options.form):
        parser.error("--model sends what the model takes, in binary form: leave --size and --form away")
    options.size = options.size or list(PAYLOAD_BYTES)
    options.form = options.form or ["binary", "json"]
    options.clients = options.clients or [1, 16]
    try:
        options.subject = None if options.model is None else subject_of(options.model)
    except (ValueError, SplitToolError) as error:
        parser.error(str(error))
    if options.quick:
        options.rounds, options.seconds = 1, 0.2
    return options


def main() -> int:
    """Run the benchmark."""
    options = parse_options()
    console = Console(stderr=options.json)
    # The servers are sessions of their own: they would outlive a benchmark that is ended without ending them.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    answer = report(run(options, console))
    if options.json:
        print(json.dumps(answer))
    else:
        print_tables(answer, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
