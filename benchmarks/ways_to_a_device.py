"""What the ways cost in which an HTTP request can get to one chosen replica of several.

``python -m benchmarks.ways_to_a_device [--json]``, in Serve's HAProxy mode, one request after the other, taking turns:

- **direct**: the proxy brings the request to any replica, where it stays: what we do with a request that stays;
- **thin ingress**: a deployment in front chooses and calls a replica by a Serve handle;
- **ingress request router**: HAProxy asks a router application for the replica, by Serve's internal hook;
- **handed on**: a replica hands the body to its neighbour over a Unix socket, as ours do where that pays.

Every replica answers a body with 4 KB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import ray
from fastapi import FastAPI, Request, Response
from ray import serve
from ray.serve.handle import DeploymentHandle
from rich.console import Console
from rich.table import Table

from deployments.runtime.neighbour_link import NeighbourLink, start_link
from serve_app.server import cluster_environment, free_port

BODY_BYTES = (1_000, 50_000, 600_000)
_ANSWER = b"x" * 4096
_NUM_WARM_UP = 20
_START_LIMIT_S = 60.0


class Echo:
    """Answers at once; with a socket it takes calls there, with a neighbour's it hands its requests on."""

    def __init__(self, socket: str | None = None, neighbour: str | None = None) -> None:
        self._socket = socket
        self._link = None if neighbour is None else NeighbourLink(Path(neighbour))

    async def __serve_build_asgi_app__(self) -> FastAPI:
        app = FastAPI()
        if self._socket is not None:
            self._server = await start_link(Path(self._socket), {"answer": self.answer})

        @app.post("/")
        async def infer(request: Request) -> Response:
            body = await request.body()
            return Response(await (self.answer(body) if self._link is None else self._link.call("answer", body)))

        return app

    async def answer(self, body: bytes) -> bytes:
        return _ANSWER


class ThinIngress:
    """Calls a replica behind it."""

    def __init__(self, replica: DeploymentHandle[Any]) -> None:
        self._replica = replica.options(_by_reference=False)

    def __serve_build_asgi_app__(self) -> FastAPI:
        app = FastAPI()

        @app.post("/")
        async def infer(request: Request) -> Response:
            return Response(await self._replica.answer.remote(await request.body()))

        return app


class Router:
    """Tells HAProxy a replica of an application."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._name = ""

    def __serve_build_asgi_app__(self) -> FastAPI:
        app = FastAPI()

        @app.post("/internal/route")
        async def route() -> dict[str, str]:
            if not self._name:
                names = [each["name"] for each in ray.util.list_named_actors(all_namespaces=True)]
                self._name = next(name for name in names if name.startswith(self._prefix))
            return {"replica_id": self._name}

        return app


def _deployment(kind: type, name: str) -> Any:
    options: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}, "max_ongoing_requests": 100}
    return serve.deployment(name=name, logging_config={"enable_access_log": False}, **options)(serve.ingress()(kind))


def _run_applications(folder: Path) -> dict[str, str]:
    """Start all of them; gives the path of each way."""
    echo = _deployment(Echo, "Echo")
    behind = serve.deployment(name="Behind", ray_actor_options={"num_cpus": 0}, max_ongoing_requests=100)(Echo)
    routed = echo.bind()._with_ingress_request_router(
        _deployment(Router, "Router").bind("SERVE_REPLICA::routed#Echo#"),
    )
    socket = str(folder / "echo.sock")
    serve.run(echo.bind(socket), name="direct", route_prefix="/direct")
    serve.run(_deployment(ThinIngress, "Thin").bind(behind.bind()), name="thin", route_prefix="/thin")
    serve.run(routed, name="routed", route_prefix="/routed")
    serve.run(echo.bind(None, socket), name="handed", route_prefix="/handed")
    return {
        "direct": "/direct/",
        "thin ingress": "/thin/",
        "ingress request router": "/routed/",
        "handed on": "/handed/",
    }


def measure(num: int) -> list[dict[str, object]]:
    """Milliseconds by way and body."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="dlir-ways-") as text:
        folder = Path(text)
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        port = free_port()
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        try:
            ways = _run_applications(folder)
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0) as client:
                _wait_for(client, list(ways.values()))
                for num_bytes in BODY_BYTES:
                    times_ms: dict[str, list[float]] = {way: [] for way in ways}
                    for _ in range(_NUM_WARM_UP + num):
                        for way, path in ways.items():
                            start_s = time.perf_counter()
                            client.post(path, content=b"y" * num_bytes).raise_for_status()
                            times_ms[way].append(1e3 * (time.perf_counter() - start_s))
                    for way, each in times_ms.items():
                        ordered = sorted(each[_NUM_WARM_UP:])
                        p50_ms, p99_ms = ordered[num // 2], ordered[num * 99 // 100]
                        rows.append({"way": way, "body_bytes": num_bytes, "p50_ms": p50_ms, "p99_ms": p99_ms})
        finally:
            serve.shutdown()  # type: ignore[no-untyped-call]
            ray.shutdown()
    return rows


def _wait_for(client: httpx.Client, paths: Sequence[str]) -> None:
    end_s = time.monotonic() + _START_LIMIT_S
    while any(client.post(path, content=b"y").status_code != 200 for path in paths):
        if time.monotonic() > end_s:
            raise TimeoutError(f"not all of {', '.join(paths)} answer within {_START_LIMIT_S:g} s")
        time.sleep(0.2)


def _start_again_with_haproxy(arguments: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="dlir-haproxy-") as folder:
        command = [sys.executable, "-m", "benchmarks.ways_to_a_device", *arguments]
        subprocess.run(command, env=cluster_environment(Path(folder), use_haproxy=True), check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.ways_to_a_device", description="Ways to one of several replicas.")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    parser.add_argument("--num", type=int, default=200, help="requests of each kind (default: %(default)s)")
    options = parser.parse_args(arguments)
    if "RAY_SERVE_ENABLE_HA_PROXY" not in os.environ:  # Serve reads it when it is imported
        _start_again_with_haproxy(sys.argv[1:] if arguments is None else arguments)
        return
    rows = measure(options.num)
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(title="HTTP through HAProxy, p50 / p99 in milliseconds")
    for column in ("way", "body, bytes", "ms"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for row in rows:
        table.add_row(str(row["way"]), f"{row['body_bytes']:,}", f"{row['p50_ms']:.1f} / {row['p99_ms']:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
