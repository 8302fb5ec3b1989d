"""How many requests a second a pipeline over two devices answers, beside the fused layout on one and on both.

One server has the same plan of four equal blocks three times, on logical CPU devices of one thread each, which are
cores 0 and 1 where there are two: fused on the first device; fused with a replica on each; chained, the first half of
the blocks on the first device and the second half on the second. Some clients over HTTP, each of which sends its next
request when the last one is answered, so that both ends of a pipeline have something to do; the three in turns, round
after round. ``ratio`` is requests per second over those of the first: median of the rounds, with the smallest and
largest. Two is what there is to win.

With two cores both devices share them with clients, proxy, front and Ray, which have none of their own: less than two
is left, for both ways of using them. Four cores or more show the layouts themselves.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.ingress.measure import closed_loop
from benchmarks.layouts.hops import sender, spread
from benchmarks.layouts.model import split_model
from benchmarks.load.client import open_session
from benchmarks.load.config_file import write_config
from serve_app.config import MODEL_ROUTE

ONE, BOTH, CHAINED = "fused-one", "fused-both", "chained-both"
WAYS = (ONE, BOTH, CHAINED)
CROSSING_BYTES = {"1 KB": 1_000, "600 KB": 600_000}
NUM_BLOCKS = 4
_PRODUCT = 640
Found = dict[str, list[dict[str, float]]]


def make_config(folder: Path) -> Path:
    """A configuration file that serves the model in all three ways; splits it first."""
    models = folder / "models"
    split_model(folder, models / ONE, num_blocks=NUM_BLOCKS, product=_PRODUCT)
    for way in (BOTH, CHAINED):
        shutil.copytree(models / ONE, models / way)
    has_cores = (os.cpu_count() or 1) > 1
    first, second = ({"index": index} | ({"cores": [index]} if has_cores else {}) for index in range(2))
    of_way: dict[str, dict[str, Any]] = {
        ONE: {"device": first},
        BOTH: {"devices": [first, second]},
        CHAINED: {
            "device": first,
            "layout": "chained",
            "chained": {"groups": [{"blocks": NUM_BLOCKS // 2}, {"device": second}]},
        },
    }
    return write_config(folder / "config.yaml", of_way, repository=models)


async def measure(url: str, *, rounds: int, seconds: float, num_clients: int, say: Callable[[str], None]) -> Found:
    """Requests per second of all rounds, by size; another way first in each round."""
    found: Found = {size: [] for size in CROSSING_BYTES}
    async with open_session(timeout_s=60) as session:
        for index in range(-1, rounds):  # the first one warms up
            for size, crossing_bytes in CROSSING_BYTES.items():
                rates = {}
                turn = index % len(WAYS)
                for way in WAYS[turn:] + WAYS[:turn]:
                    send = sender(session, f"{url}{MODEL_ROUTE}{way}", crossing_bytes)
                    start_s = time.perf_counter()
                    times_s = await closed_loop(send, clients=num_clients, seconds=seconds if index >= 0 else 0.0)
                    rates[way] = len(times_s) / (time.perf_counter() - start_s)
                if index >= 0:
                    found[size].append(rates)
                    each = ", ".join(f"{way} {rates[way]:.1f}/s" for way in WAYS)
                    say(f"round {index + 1} of {rounds}: {size}: {each}")
    return found


def report(found: Found) -> dict[str, Any]:
    """The JSON object: for each size and way requests per second, and their ratio to one device."""
    return {
        size: {
            way: {
                "per_s": spread([each[way] for each in rounds]),
                "ratio": spread([each[way] / each[ONE] for each in rounds]),
            }
            for way in WAYS
        }
        for size, rounds in found.items()
    }


def print_table(answer: Mapping[str, Any], console: Console) -> None:
    """The same for people."""
    table = Table("crosses the cut", "way", title="requests per second; median (smallest to largest round)")
    for column in ("requests/s", f"/ {ONE}"):
        table.add_column(column, justify="right")
    for size, ways in answer.items():
        key = size
        for way, figures in ways.items():
            spreads = (figures["per_s"], figures["ratio"])
            cells = (f"{each['median']:g} ({each['min']:g} to {each['max']:g})" for each in spreads)
            table.add_row(key, way, *cells)
            key = ""
    console.print(table)
