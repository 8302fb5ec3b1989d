"""The chained layout beside the fused one.

    python -m benchmarks.layouts                what a hop costs: a table; about two minutes
    python -m benchmarks.layouts --pipeline     requests per second over two devices: a table; about a minute
    python -m benchmarks.layouts --json         one JSON object; with either

What is measured, and how, is in ``hops`` and ``pipeline``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.layouts import hops, pipeline
from serve_app.config import load_config
from serve_app.server import Server, free_port

ROUNDS = 5
SECONDS = 1.5
CLIENTS = 4


def run(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Start the server, measure, end it."""
    make_config = pipeline.make_config if options.pipeline else hops.make_config

    def say(text: str) -> None:
        console.print(text, style="dim", highlight=False)

    with tempfile.TemporaryDirectory(prefix="dlir-layouts-") as folder:
        say("splitting the model")
        config = load_config(make_config(Path(folder)), port=free_port())
        say("starting the server")
        with Server(config) as server:
            server.wait_until_ready()
            how: dict[str, Any] = {"rounds": options.rounds, "seconds": options.seconds, "say": say}
            if options.pipeline:
                rates = asyncio.run(pipeline.measure(server.url, num_clients=options.clients, **how))
                return pipeline.report(rates)
            return hops.report(asyncio.run(hops.measure(server.url, **how)))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.layouts", description="What does the chained layout cost?")
    parser.add_argument("--pipeline", action="store_true", help="requests per second over two devices instead")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"interleaved rounds (default {ROUNDS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of each layout a round (default {SECONDS})")
    parser.add_argument("--clients", type=int, default=CLIENTS, help=f"pipeline: at a time (default {CLIENTS})")
    options = parser.parse_args()
    # The server is a session of its own: it would outlive a benchmark that is ended without ending it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    answer = run(options, Console(stderr=True))
    if options.json:
        print(json.dumps(answer))
    elif options.pipeline:
        pipeline.print_table(answer, Console())
    else:
        hops.print_table(answer, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
