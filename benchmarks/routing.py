"""What it costs to choose one of several devices for a request, and to hand the request on to a replica there.

``python -m benchmarks.routing [--json]``:

- **decision**: ``choose_device`` over allocators in this process, as the simulator does it, by number of devices and of
  requests that wait on each; nobody is idle, so forecasts are made.
- **page**: the same over the pages of memory that allocators of a node share, as replicas do it, and what it costs the
  allocator to keep its page up to date.
- **idle**: a look at the replica's own device, which is idle: all that a request pays which stays.
- **hop**: a call of another process and back over the neighbours' socket, by bytes of the input; the output has 4 KB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import numpy as np
from rich.console import Console
from rich.table import Table

from deployments.runtime.device_view import DeviceView
from deployments.runtime.errors import NeighbourGoneError
from deployments.runtime.neighbour_link import NeighbourLink, start_link
from deployments.runtime.queue_page import QueuePage
from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.policies.table import make_policy
from deployments.scheduling.request import Request, RequestId
from deployments.scheduling.routing import choose_device

NUM_DEVICES = (2, 8, 64)
NUM_WAITING = (1, 4, 16, 64)
INPUT_BYTES = (1_000, 50_000, 600_000, 3_200_000)
_TIMES_S = (0.00735, 0.00897, 0.00618, 0.01911, 0.04709)
_NUM_WARM_UP = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What something costs.

    Attributes:
        what: See the module.
        num_devices: Devices to choose from; None: says nothing.
        num_waiting: Requests that wait on each; None: says nothing.
        num_bytes: Bytes of the input; None: says nothing.
        p50_us: Median in microseconds.
        p99_us: 99th percentile in microseconds.
    """

    what: str
    num_devices: int | None = None
    num_waiting: int | None = None
    num_bytes: int | None = None
    p50_us: float
    p99_us: float


def _cost(
    what: str,
    times_s: Sequence[float],
    *,
    num_devices: int | None = None,
    num_waiting: int | None = None,
    num_bytes: int | None = None,
) -> Cost:
    ordered = sorted(times_s[_NUM_WARM_UP:])
    return Cost(
        what=what,
        num_devices=num_devices,
        num_waiting=num_waiting,
        num_bytes=num_bytes,
        p50_us=round(1e6 * ordered[len(ordered) // 2], 1),
        p99_us=round(1e6 * ordered[len(ordered) * 99 // 100], 1),
    )


def _timed(action: Callable[[], object], num: int) -> list[float]:
    times_s = []
    for _ in range(num):
        start_s = time.perf_counter()
        action()
        times_s.append(time.perf_counter() - start_s)
    return times_s


def _request(number: int, random: Random) -> Request:
    model = random.randrange(len(_TIMES_S))
    time_s = _TIMES_S[model]
    arrival_s = time.monotonic() - random.random() * 0.05
    return Request(
        request_id=RequestId(str(number)),
        model=str(model),
        owner="replica",
        arrival_s=arrival_s,
        isolated_s=time_s,
        block_times_s=(time_s / 4,) * 4,
        deadline_s=arrival_s + 4.0 * time_s,
    )


def _fill(core: DeviceAllocator, num_waiting: int, random: Random) -> None:
    now_s = time.monotonic()
    for number in range(num_waiting + 1):
        core.submit(_request(number, random), now_s)


def decision_costs(num: int) -> list[Cost]:
    """One row per number of devices and of waiting requests."""
    costs = []
    for num_devices in NUM_DEVICES:
        for num_waiting in NUM_WAITING:
            random = Random(0)
            cores = [DeviceAllocator(policy=make_policy("slo")) for _ in range(num_devices)]
            for core in cores:
                _fill(core, num_waiting, random)
            times_s = _timed(lambda: choose_device(cores, _request(-1, random), time.monotonic()), num)  # noqa: B023
            costs.append(_cost("decision", times_s, num_devices=num_devices, num_waiting=num_waiting))
    return costs


def page_costs(folder: Path, num: int) -> list[Cost]:
    """The same from pages, for the devices of one node; and what the writer and an idle device cost."""
    costs = []
    random = Random(0)
    for num_waiting in (0, *NUM_WAITING):
        pages, views, cores = [], [], []
        for number in range(8):
            (folder / f"{num_waiting}-{number}").mkdir()
            page = QueuePage(folder / f"{num_waiting}-{number}", DeviceSettings())
            core = DeviceAllocator(policy=make_policy("slo"), watcher=page)
            if num_waiting:
                _fill(core, num_waiting, random)
            page.tell(core, time.monotonic())
            pages.append(page)
            cores.append(core)
            views.append(DeviceView(folder / f"{num_waiting}-{number}"))
        if not num_waiting:
            costs.append(_cost("idle", _timed(lambda: views[0].is_idle, num)))  # noqa: B023
            continue
        for num_devices in (2, 8):
            chosen = views[:num_devices]
            times_s = _timed(lambda: choose_device(chosen, _request(-1, random), time.monotonic(), hop_s=0.002), num)  # noqa: B023
            costs.append(_cost("page", times_s, num_devices=num_devices, num_waiting=num_waiting))
        times_s = _timed(lambda: pages[0].tell(cores[0], time.monotonic()), num)  # noqa: B023
        costs.append(_cost("page kept up to date", times_s, num_waiting=num_waiting))
    return costs


async def _answer(array: np.ndarray) -> np.ndarray:
    return np.zeros(1000, np.float32)


def _serve(path: Path) -> None:
    async def serve() -> None:
        await (await start_link(path, {"answer": _answer})).serve_forever()

    asyncio.run(serve())


async def hop_costs(path: Path, num: int) -> list[Cost]:
    """One row per size of the input."""
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(path,), daemon=True)
    process.start()
    link = NeighbourLink(path)
    costs = []
    try:
        is_there = False
        while not is_there:
            with suppress(NeighbourGoneError):
                await link.call("answer", np.zeros(1))
                is_there = True
            await asyncio.sleep(0.05)
        for num_bytes in INPUT_BYTES:
            array = np.zeros(num_bytes // 4, np.float32)
            times_s = []
            for _ in range(num):
                start_s = time.perf_counter()
                await link.call("answer", array)
                times_s.append(time.perf_counter() - start_s)
            costs.append(_cost("hop", times_s, num_bytes=num_bytes))
    finally:
        link.close()
        process.kill()
        process.join()
    return costs


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.routing", description="Cost of choosing a device, and of a hop.")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    parser.add_argument("--num", type=int, default=500, help="times each is done (default: %(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        costs = decision_costs(options.num) + page_costs(Path(folder), options.num)
        costs += asyncio.run(hop_costs(Path(folder) / "a.sock", options.num))
    if options.json:
        print(json.dumps([asdict(cost) for cost in costs], indent=2))
        return
    table = Table(title="microseconds, p50 / p99")
    for column in ("what", "devices", "waiting on each", "bytes", "us"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for cost in costs:
        numbers = ("" if each is None else f"{each:,}" for each in (cost.num_devices, cost.num_waiting, cost.num_bytes))
        table.add_row(cost.what, *numbers, f"{cost.p50_us:,.1f} / {cost.p99_us:,.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
