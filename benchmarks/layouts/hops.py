"""What a hop from one group of blocks to the next costs.

One server (``serve_app``) has the same plan of three blocks twice: fused, and chained in three deployments, both on one
device, which is core 0 where there are two. The request says how large the tensor is that crosses both cuts; request
and answer are tiny, and the blocks do the same work at every size but for reading and writing that tensor. One client
over HTTP; the two layouts in turns, round after round. ``hop_ms`` is the difference of their medians per hop, ``ratio``
chained over fused: median of the rounds, with the smallest and largest.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.ingress.measure import Send, Times, closed_loop, summary
from benchmarks.layouts.model import split_model
from benchmarks.load.client import open_session, post
from benchmarks.load.config_file import write_config
from serve_app.config import MODEL_ROUTE
from serve_app.protocol.client_codec import encode_infer_request

LAYOUTS = ("fused", "chained")
CROSSING_BYTES = {"1 KB": 1_000, "50 KB": 50_000, "600 KB": 600_000, "3 MB": 3_000_000}
NUM_BLOCKS = 3
_PRODUCT = 256
Rounds = list[dict[str, Times]]
Found = dict[str, Rounds]


def make_config(folder: Path) -> Path:
    """A configuration file that serves the model in both layouts; splits it first.

    Raises:
        ModelFailedError: If something else crosses the cuts than is to be measured.
    """
    models = folder / "models"
    split_model(folder, models / "fused", num_blocks=NUM_BLOCKS, product=_PRODUCT)
    shutil.copytree(models / "fused", models / "chained")
    device = {"kind": "cpu"} | ({"cores": [0]} if (os.cpu_count() or 1) > 1 else {})
    stated = {layout: {"device": device, "layout": layout} for layout in LAYOUTS}
    return write_config(folder / "config.yaml", stated, repository=models)


async def measure(url: str, *, rounds: int, seconds: float, say: Callable[[str], None]) -> Found:
    """All rounds; the layouts take turns within a size, the other one first in every second round."""
    found: Found = {size: [] for size in CROSSING_BYTES}
    async with open_session(timeout_s=60) as session:
        for index in range(-1, rounds):  # the first one warms up
            for size, crossing_bytes in CROSSING_BYTES.items():
                times = {}
                for layout in LAYOUTS if index % 2 else LAYOUTS[::-1]:
                    send = sender(session, f"{url}{MODEL_ROUTE}{layout}", crossing_bytes)
                    times[layout] = await closed_loop(send, clients=1, seconds=seconds if index >= 0 else 0.0)
                if index >= 0:
                    found[size].append(times)
                    medians = ", ".join(f"{layout} {np.median(times[layout]) * 1e3:.1f} ms" for layout in LAYOUTS)
                    say(f"round {index + 1} of {rounds}: {size}: {medians}")
    return found


def sender(session: aiohttp.ClientSession, url: str, crossing_bytes: int) -> Send:
    """Sends the model's one request.

    Args:
        session: Of the client.
        url: Of the model.
        crossing_bytes: Size of the tensor that crosses each cut.
    """
    request = encode_infer_request({"n": np.array([crossing_bytes // 4])})
    headers = {"Inference-Header-Content-Length": str(request.header_length)}

    async def send() -> None:
        await post(session, f"{url}/infer", request.body, headers)

    return send


def report(found: Found) -> dict[str, Any]:
    """The JSON object: for each size the times of both layouts, cost of a hop and ratio."""
    return {size: summary(rounds) | _differences(rounds) for size, rounds in found.items()}


def _differences(rounds: Rounds) -> dict[str, dict[str, float]]:
    medians_ms = [{layout: float(np.median(each[layout])) * 1e3 for layout in LAYOUTS} for each in rounds]
    hops_ms = [(each["chained"] - each["fused"]) / (NUM_BLOCKS - 1) for each in medians_ms]
    return {
        "hop_ms": spread(hops_ms),
        "ratio": spread([each["chained"] / each["fused"] for each in medians_ms]),
    }


def spread(of_rounds: Sequence[float]) -> dict[str, float]:
    """Median of the rounds, smallest and largest."""
    return {
        "median": round(float(np.median(of_rounds)), 2),
        "min": round(min(of_rounds), 2),
        "max": round(max(of_rounds), 2),
    }


def print_table(answer: Mapping[str, Any], console: Console) -> None:
    """The same for people."""
    table = Table("crosses each cut", title="chained beside fused; median (smallest to largest round)")
    for column in ("fused p50 ms", "chained p50 ms", "a hop, ms", "chained / fused", "requests"):
        table.add_column(column, justify="right")
    for size, figures in answer.items():
        spreads = (figures["hop_ms"], figures["ratio"])
        hop, ratio = (f"{each['median']:g} ({each['min']:g} to {each['max']:g})" for each in spreads)
        counts = " + ".join(str(figures[layout]["count"]) for layout in LAYOUTS)
        table.add_row(size, *(f"{figures[layout]['p50_ms']:g}" for layout in LAYOUTS), hop, ratio, counts)
    console.print(table)
