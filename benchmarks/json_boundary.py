"""Is a block boundary delayed by large JSON that the same replica reads or writes?

    python -m benchmarks.json_boundary             a table
    python -m benchmarks.json_boundary --json      the same as one JSON object

A real server (``serve_app``) with one model of blocks of equal work, on a core of its own where there are two. Small
binary requests keep the device busy all the time; in turns of a few seconds the replica also gets, one after the other
and without a pause, requests with 5 MB of JSON, or requests whose answer is 5 MB of JSON. From the slice log: how much
longer a block took, from the end of the block before to its own end, than the median of the same block while nothing
else came. Milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import onnx
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

from benchmarks.load.client import open_session, post
from benchmarks.load.config_file import write_config
from benchmarks.serve.observe import DeviceWindow
from deployments.runtime.messages import Slice
from serve_app.config import load_config
from serve_app.protocol.client_codec import encode_infer_request
from serve_app.server import Server, free_port
from split_tool.splitting import split

MODEL = "products"
NUM_BLOCKS = 40
SIZE = 256
NUM_SMALL = 1000
JSON_BYTES = 5_000_000
PHASES = ("quiet", "json request", "json answer")
_LENGTH = "Inference-Header-Content-Length"
Post = tuple[bytes, dict[str, str]]


def make_model(path: Path) -> None:
    """``NUM_BLOCKS`` matrix products that begin with the mean of ``x``, and ``x`` itself as a second output."""
    rng = np.random.default_rng(0)
    product = rng.random((SIZE, SIZE), np.float32) / SIZE
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=0),
        helper.make_node("Add", ["w", "mean"], ["v0"]),
        *(helper.make_node("MatMul", [f"v{i}", "w"], [f"v{i + 1}"]) for i in range(NUM_BLOCKS)),
        helper.make_node("ReduceMean", [f"v{NUM_BLOCKS}"], ["y"], keepdims=0),
        helper.make_node("Identity", ["x"], ["echo"]),
    ]
    graph = helper.make_graph(
        nodes,
        MODEL,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n"])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, []),
            helper.make_tensor_value_info("echo", TensorProto.FLOAT, [1, "n"]),
        ],
        [onnx.numpy_helper.from_array(product, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def make_config(folder: Path) -> Path:
    """A configuration file that serves the model; splits it first."""
    make_model(folder / f"{MODEL}.onnx")
    split(
        folder / f"{MODEL}.onnx",
        folder / "models" / MODEL,
        blocks=NUM_BLOCKS,
        input_shapes={"x": (1, NUM_SMALL)},
        graph="user",
    )
    device: dict[str, Any] = {"kind": "cpu"}
    if (os.cpu_count() or 1) > 1:
        device["cores"] = [0]
    return write_config(folder / "config.yaml", {MODEL: {"device": device}}, repository=folder / "models")


def requests() -> tuple[Post, dict[str, Post]]:
    """The small binary request, and what comes beside it in each phase."""
    small = np.random.default_rng(0).random((1, NUM_SMALL), np.float32)
    number = "0.12345"
    count = JSON_BYTES // (len(number) + 1)
    header = {"name": "x", "datatype": "FP32", "shape": [1, count]}
    data = "[" + ",".join([number] * count) + "]"
    only_y = json.dumps({"inputs": [header], "outputs": [{"name": "y"}]}).replace("]}]", f'],"data":{data}}}]', 1)
    large = np.full((1, count), float(number), np.float32)
    echo = json.dumps(
        {
            "inputs": [header | {"parameters": {"binary_data_size": large.nbytes}}],
            "outputs": [{"name": "echo", "parameters": {"binary_data": False}}],
        }
    ).encode()
    encoded = encode_infer_request({"x": small})
    return (encoded.body, {_LENGTH: str(encoded.header_length)}), {
        "json request": (only_y.encode(), {}),
        "json answer": (echo + large.tobytes(), {_LENGTH: str(len(echo))}),
    }


async def keep_sending(session: aiohttp.ClientSession, url: str, request: Post, end_s: float) -> int:
    """Send the request again and again until the time; how often.

    Raises:
        ModelFailedError: If it is not answered.
    """
    count = 0
    while asyncio.get_running_loop().time() < end_s:
        await post(session, f"{url}/v2/models/{MODEL}/infer", *request)
        count += 1
    return count


async def measure(url: str, *, rounds: int, seconds: float, console: Console) -> dict[str, dict[str, float]]:
    """Interleaved rounds of all phases."""
    small, beside = requests()
    blocks_s: dict[str, list[np.ndarray]] = {phase: [] for phase in PHASES}
    num_beside = dict.fromkeys(PHASES, 0)
    loop = asyncio.get_running_loop()
    async with open_session(timeout_s=60) as session:
        window = DeviceWindow(session, url, "cpu-0")
        for request in (small, *beside.values()):
            await keep_sending(session, url, request, loop.time() + 0.5)
        for index in range(rounds):
            for phase in PHASES:
                console.print(f"round {index + 1} of {rounds}: {phase}", style="dim")
                since = (await window.state()).num_slices
                tasks = [keep_sending(session, url, small, loop.time() + seconds)]
                if phase in beside:
                    tasks.append(keep_sending(session, url, beside[phase], loop.time() + seconds))
                counts = await asyncio.gather(*tasks)
                num_beside[phase] += sum(counts[1:])
                blocks_s[phase] += [block_times_s(turn) for turn in await window.slices(since)]
    usual_s = np.median(np.stack([times for times in blocks_s["quiet"] if len(times)]), axis=0)
    return {phase: figures(blocks_s[phase], usual_s, num_beside[phase]) for phase in PHASES}


def block_times_s(turn: Slice) -> np.ndarray:
    """Times of a whole turn's blocks, in seconds; of a turn that was interrupted, none."""
    if turn.first_block != 0 or len(turn.block_ends_s) != NUM_BLOCKS:
        return np.empty(0)
    return np.diff([turn.start_s, *turn.block_ends_s])


def figures(blocks_s: list[np.ndarray], usual_s: np.ndarray, num_beside: int) -> dict[str, float]:
    """What a phase's boundaries lost. The first and last block carry the inputs and outputs: they do not count."""
    late_s = np.concatenate([(times - usual_s)[1:-1] for times in blocks_s if len(times)])
    return {
        "p50_ms": round(statistics.median(late_s) * 1e3, 3),
        "p99_ms": round(float(np.percentile(late_s, 99)) * 1e3, 3),
        "max_ms": round(float(late_s.max()) * 1e3, 3),
        "boundaries": len(late_s),
        "large_requests": num_beside,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.json_boundary", description="Does large JSON delay a boundary?")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a phase (default 5)")
    options = parser.parse_args()
    console = Console(stderr=True)
    # The server is a session of its own: it would outlive a benchmark that is ended without ending it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="dlir-boundary-") as folder:
        console.print("splitting the model", style="dim")
        config = load_config(make_config(Path(folder)), port=free_port())
        console.print("starting the server", style="dim")
        with Server(config) as server:
            server.wait_until_ready()
            os.nice(10)  # clients are elsewhere: this one must not take the time of the replica that it measures
            found = asyncio.run(measure(server.url, rounds=options.rounds, seconds=options.seconds, console=console))
    if options.json:
        print(json.dumps(found))
        return
    table = Table(title="how much later a boundary is, milliseconds")
    columns = ("p50_ms", "p99_ms", "max_ms", "boundaries", "large_requests")
    for column in ("beside", *columns):
        table.add_column(
            column.removesuffix("_ms").replace("_", " "), justify="left" if column == "beside" else "right"
        )
    for phase, values in found.items():
        table.add_row(phase, *(f"{values[column]:g}" for column in columns))
    Console().print(table)


if __name__ == "__main__":
    main()
