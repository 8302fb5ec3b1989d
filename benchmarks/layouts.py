"""What a hop from one group of blocks to the next costs in the chained layout, beside the fused one.

    python -m benchmarks.layouts             a table; about two minutes
    python -m benchmarks.layouts --json      the same as one JSON object

One server (``serve_app``) has the same plan of three blocks twice: fused, and chained in three deployments, both on one
device, which is core 0 where there are two. The request says how large the tensor is that crosses both cuts; request
and answer are tiny, and the blocks do the same work at every size but for reading and writing that tensor. One client
over HTTP; the two layouts in turns, round after round. ``hop_ms`` is the difference of their medians per hop, ``ratio``
chained over fused: median of the rounds, with the smallest and largest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

from benchmarks.ingress.measure import Times, closed_loop, summary
from benchmarks.load.client import open_session
from benchmarks.load.errors import ModelFailedError
from serve_app.config import GATEWAY_IMPORT_PATH, MODEL_IMPORT_PATH, MODEL_ROUTE, load_config
from serve_app.protocol.client_codec import encode_infer_request
from serve_app.server import Server, free_port
from split_tool.splitting import split

LAYOUTS = ("fused", "chained")
CROSSING_BYTES = {"1 KB": 1_000, "50 KB": 50_000, "600 KB": 600_000, "3 MB": 3_000_000}
NUM_BLOCKS = 3
PRODUCT = 256
ROUNDS = 5
SECONDS = 1.5
_LENGTH = "Inference-Header-Content-Length"
Rounds = list[dict[str, Times]]
Found = dict[str, Rounds]


def make_model(path: Path) -> None:
    """A row of ``NUM_BLOCKS`` products of matrices; between two there is a vector of ``n`` numbers, and a number."""
    product, one = np.full((PRODUCT, PRODUCT), 1 / PRODUCT, np.float32), np.array([1], np.int64)
    nodes = [
        helper.make_node("Max", ["n", "one"], ["count"]),
        helper.make_node("ConstantOfShape", ["count"], ["v0"], value=numpy_helper.from_array(np.ones(1, np.float32))),
    ]
    for index in range(NUM_BLOCKS):
        mean, moved, matrix, scalar = (f"{name}{index}" for name in ("mean", "moved", "matrix", "scalar"))
        nodes += [
            helper.make_node("ReduceMean", [f"v{index}"], [mean], keepdims=0),
            helper.make_node("Add", ["w", mean], [moved]),
            helper.make_node("MatMul", [moved, "w"], [matrix]),
            helper.make_node("ReduceMean", [matrix], [scalar], keepdims=0),
            helper.make_node("Add", [f"v{index}", scalar], [f"v{index + 1}"]),
        ]
    nodes.append(helper.make_node("ReduceMean", [f"v{NUM_BLOCKS}"], ["y"], keepdims=0))
    graph = helper.make_graph(
        nodes,
        "crossing",
        [helper.make_tensor_value_info("n", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(product, "w"), numpy_helper.from_array(one, "one")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def make_config(folder: Path) -> Path:
    """A configuration file that serves the model in both layouts; splits it first.

    Raises:
        ModelFailedError: If something else crosses the cuts than is to be measured.
    """
    source, models = folder / "crossing.onnx", folder / "models"
    make_model(source)
    plan = split(source, models / "fused", blocks=NUM_BLOCKS, graph="user", samples={"n": np.array([1_000])})
    crossing = [[spec.name.rstrip("0123456789") for spec in cut.tensors] for cut in plan.cuts]
    if len(crossing) != NUM_BLOCKS - 1 or not all({"v"} <= set(names) <= {"v", "mean", "scalar"} for names in crossing):
        raise ModelFailedError(f"the model was cut elsewhere than between its products: {crossing} cross")
    shutil.copytree(models / "fused", models / "chained")
    device = {"kind": "cpu"} | ({"cores": [0]} if (os.cpu_count() or 1) > 1 else {})
    applications: list[dict[str, Any]] = [
        {"name": "gateway", "route_prefix": "/", "import_path": GATEWAY_IMPORT_PATH, "args": {"grpc_port": None}}
    ]
    for layout in LAYOUTS:
        args = {"model": layout, "repository": str(models), "device": device, "layout": layout}
        applications.append(
            {"name": layout, "route_prefix": MODEL_ROUTE + layout, "import_path": MODEL_IMPORT_PATH, "args": args}
        )
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"applications": applications}))
    return path


async def measure(url: str, *, rounds: int, seconds: float, say: Callable[[str], None]) -> Found:
    """All rounds; the layouts take turns within a size, the other one first in every second round."""
    found: Found = {size: [] for size in CROSSING_BYTES}
    async with open_session(timeout_s=60) as session:

        async def infer(layout: str, body: bytes, headers: Mapping[str, str]) -> None:
            async with session.post(f"{url}{MODEL_ROUTE}{layout}/infer", data=body, headers=headers) as answer:
                text = await answer.read()
                if answer.status != 200:
                    raise ModelFailedError(f"{layout}: HTTP {answer.status}: {text[:300]!r}")

        for index in range(-1, rounds):  # the first one warms up
            for size, crossing_bytes in CROSSING_BYTES.items():
                request = encode_infer_request({"n": np.array([crossing_bytes // 4])})
                headers = {_LENGTH: str(request.header_length)}
                times = {}
                for layout in LAYOUTS if index % 2 else LAYOUTS[::-1]:
                    send = partial(infer, layout, request.body, headers)
                    times[layout] = await closed_loop(send, clients=1, seconds=seconds if index >= 0 else 0.0)
                if index >= 0:
                    found[size].append(times)
                    medians = ", ".join(f"{layout} {np.median(times[layout]) * 1e3:.1f} ms" for layout in LAYOUTS)
                    say(f"round {index + 1} of {rounds}: {size}: {medians}")
    return found


def report(found: Found) -> dict[str, Any]:
    """The JSON object: for each size the times of both layouts, cost of a hop and ratio."""
    return {size: summary(rounds) | _differences(rounds) for size, rounds in found.items()}


def _differences(rounds: Rounds) -> dict[str, dict[str, float]]:
    medians_ms = [{layout: float(np.median(each[layout])) * 1e3 for layout in LAYOUTS} for each in rounds]
    hops_ms = [(each["chained"] - each["fused"]) / (NUM_BLOCKS - 1) for each in medians_ms]
    return {
        "hop_ms": _spread(hops_ms),
        "ratio": _spread([each["chained"] / each["fused"] for each in medians_ms]),
    }


def _spread(of_rounds: Sequence[float]) -> dict[str, float]:
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


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.layouts", description="What does a hop between blocks cost?")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"interleaved rounds (default {ROUNDS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of each layout a round (default {SECONDS})")
    options = parser.parse_args()
    progress = Console(stderr=True)
    # The server is a session of its own: it would outlive a benchmark that is ended without ending it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def say(text: str) -> None:
        progress.print(text, style="dim", highlight=False)

    with tempfile.TemporaryDirectory(prefix="dlir-layouts-") as folder:
        say("splitting the model")
        config = load_config(make_config(Path(folder)), port=free_port())
        say("starting the server")
        with Server(config) as server:
            server.wait_until_ready()
            found = asyncio.run(measure(server.url, rounds=options.rounds, seconds=options.seconds, say=say))
    answer = report(found)
    if options.json:
        print(json.dumps(answer))
    else:
        print_table(answer, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
