"""Runs rounds: a server is started, checked, loaded at each load in turn, and stopped while the next one starts."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec

from benchmarks.load.client import measure_alone, open_session
from benchmarks.load.inputs import Arrays
from benchmarks.load.loops import Sender, run_closed_loop, run_open_loop
from benchmarks.load.report import Outcome
from benchmarks.load.server import running_command
from benchmarks.serve.affinity import borrowed_cores
from benchmarks.serve.competitors import Competitor, Launch, prepare_launch
from benchmarks.serve.observe import DeviceState, DeviceWindow, busy_share, read_clocks
from benchmarks.serve.records import Round, Setting
from benchmarks.serve.reference import allowed_cores, largest_difference
from benchmarks.serve.senders import Via, open_sender
from benchmarks.serve.subject import Subject
from benchmarks.serve.workload import Workload
from deployments.simulation.workload import Arrival

_START_TIMEOUT_S = 240.0
_STOP_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of a server.

    Attributes:
        competitor: Whose.
        number: Of the round.
        loads: What it is loaded with, one after the other.
    """

    competitor: Competitor
    number: int
    loads: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What holds for all rounds.

    Attributes:
        subject: The models.
        setting: What goes into the records.
        workload: The arrivals.
        inputs: The request of each model.
        wanted: The answer of plain ONNX Runtime to it.
        via: The way to the server.
        peer_python: The Python of the environment with other servers.
    """

    subject: Subject
    setting: Setting
    workload: Workload
    inputs: Mapping[str, Arrays]
    wanted: Mapping[str, Arrays]
    via: Via
    peer_python: Path


class Watcher:
    """What is told while rounds run; does nothing by itself."""

    def on_loading(self, start: Start, load: float | None, num_arrivals: int | None) -> None:
        """Requests begin to go out; their number is not known in a closed loop."""

    def on_sent(self, arrival: Arrival) -> None:
        """A request goes out."""

    def on_finished(self, outcome: Outcome) -> None:
        """An answer or a failure is there."""


def order_starts(
    competitors: Sequence[Competitor],
    *,
    loads: Sequence[float | None],
    num_rounds: int,
    seed: int,
    done: set[tuple[str, float | None, int]],
) -> list[Start]:
    """All starts that are still to be done: round after round, in each the competitors in random order.

    Args:
        competitors: Who.
        loads: Each start is loaded with those that are not done.
        num_rounds: How many rounds.
        seed: Of the order.
        done: Competitor, load and number of the rounds that are there already.
    """
    starts = []
    for number in range(num_rounds):
        shuffled = sorted(competitors, key=lambda each: each.name)
        Random(seed + number).shuffle(shuffled)
        for competitor in shuffled:
            wanted = tuple(load for load in loads if (competitor.name, load, number) not in done)
            if wanted:
                starts.append(Start(competitor=competitor, number=number, loads=wanted))
    return starts


class Stopper:
    """Stops one server while the next one starts: neither is measured meanwhile."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def begin(self, server: contextlib.ExitStack) -> None:
        """Close ``server`` on a thread, after the one before it."""
        self.wait()
        self._thread = threading.Thread(target=server.close, name="stopper")
        self._thread.start()

    def wait(self) -> None:
        """Return once everything has been stopped."""
        if self._thread is not None:
            self._thread.join()


def run_start(plan: Plan, start: Start, watcher: Watcher, stopper: Stopper) -> list[Round]:
    """Start a server, check and load it, and begin to stop it.

    Returns:
        One round per load.

    Raises:
        LoadError: If it does not start, or answers with errors or with something else than plain ONNX Runtime.
    """
    server = contextlib.ExitStack()
    try:
        folder = server.enter_context(tempfile.TemporaryDirectory(prefix="dlir-bench-"))
        launch = prepare_launch(start.competitor, plan.subject, Path(folder), plan.peer_python)
        with borrowed_cores(plan.subject.device.cores or (), allowed_cores()):
            server.enter_context(
                running_command(
                    launch.command,
                    start_timeout_s=_START_TIMEOUT_S,
                    stop_timeout_s=_STOP_TIMEOUT_S,
                    environment=launch.environment,
                )
            )
            stopper.wait()
        return asyncio.run(_load(plan, start, launch, watcher))
    finally:
        stopper.begin(server)


async def _load(plan: Plan, start: Start, launch: Launch, watcher: Watcher) -> list[Round]:
    name = start.competitor.name
    async with open_sender(plan.via, launch, plan.inputs) as sender:
        largest = 0.0
        for model, wanted in plan.wanted.items():
            found = await sender.outputs(model)
            largest = max(largest, largest_difference(wanted, found, who=f"{model} of {name}"))
        alone_s = await measure_alone(sender, plan.inputs)
        rounds = []
        for load in start.loads:
            rounds.append(await _measure(plan, start, launch, sender, load, watcher))
        return [msgspec.structs.replace(each, alone_s=alone_s, largest_difference=largest) for each in rounds]


async def _measure(
    plan: Plan, start: Start, launch: Launch, sender: Sender, load: float | None, watcher: Watcher
) -> Round:
    device_cores = plan.subject.device.cores or ()
    other_cores = [core for core in allowed_cores() if core not in device_cores]
    async with open_session(timeout_s=_ANSWER_TIMEOUT_S) as session:
        window = DeviceWindow(session, launch.url, plan.subject.device.device)
        is_ours = start.competitor.kind == "ours"
        state = await window.state() if is_ours else DeviceState(num_slices=0, allocator_s=0.0)
        before, began_s = read_clocks(), time.monotonic()
        outcomes = await _send_all(plan, start, sender, load, watcher)
        after = read_clocks()
        allocator_s = (await window.state()).allocator_s - state.allocator_s if is_ours else None
        slices = await window.slices(state.num_slices) if is_ours else ()
    return Round(
        competitor=start.competitor.name,
        load=load,
        number=start.number,
        outcomes=outcomes,
        began_s=began_s,
        alone_s={},
        largest_difference=0.0,
        device_busy=busy_share(before, after, device_cores),
        other_busy=busy_share(before, after, other_cores),
        slices=slices,
        allocator_s=allocator_s,
    )


async def _send_all(
    plan: Plan, start: Start, sender: Sender, load: float | None, watcher: Watcher
) -> tuple[Outcome, ...]:
    isolated_s, workload = plan.setting.isolated_s, plan.workload
    if load is None:
        watcher.on_loading(start, load, None)
        clients = workload.closed_loop(isolated_s, number=start.number)
        return await run_closed_loop(
            sender,
            clients,
            duration_s=workload.seconds,
            on_sent=watcher.on_sent,
            on_finished=watcher.on_finished,
        )
    arrivals = workload.arrivals(isolated_s, load=load, number=start.number)
    watcher.on_loading(start, load, len(arrivals))
    return await run_open_loop(sender, arrivals, on_sent=watcher.on_sent, on_finished=watcher.on_finished)
