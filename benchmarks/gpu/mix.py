"""All models at once on one device, each in its own process, under a real allocator in one mode after the other."""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from benchmarks.gpu.chains import ChainFigures, random_inputs
from benchmarks.lease import serve_allocator
from benchmarks.load.report import violation_share
from deployments.runtime.backends.table import backend_of
from deployments.runtime.block_times import BlockTimes
from deployments.runtime.device_thread import DeviceThread
from deployments.runtime.jobs import Result
from deployments.runtime.messages import Slice
from deployments.runtime.settings import SWITCH_INTERVAL_S, DeviceSettings
from deployments.scheduling.request import Request, RequestId
from deployments.simulation.arrivals import make_arrivals
from deployments.simulation.workload import Arrival, SimulatedModel
from split_tool.plan import SplitPlan

ALPHAS = (2.0, 3.0, 4.0)
_DEADLINE_ALPHA = 4.0
_PROCESSES = multiprocessing.get_context("spawn")
_LEAD_S = 0.5
_MAX_PER_MODEL = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeFigures:
    """One mode.

    Attributes:
        mode: Its name.
        num_requests: Answered requests; one that failed ends the run.
        violations: Share of requests that took longer than 2, 3, 4 times the isolated time.
        p99_ratio: 99th percentile of response time / isolated time.
        handovers_us: Idle time of the device where it went from one process to another in which a request waited, p50
            and p99; None where turns are not exclusive, or that never happened.
    """

    mode: str
    num_requests: int
    violations: tuple[float, ...]
    p99_ratio: float
    handovers_us: tuple[float, float] | None


class _Answer(NamedTuple):
    """One answered request; times of the monotonic clock, which processes share."""

    request_id: RequestId
    arrival_s: float
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """What a process is told: the model's plan, its times, and when its requests come, seconds after the start."""

    folder: str
    isolated_s: float
    times_s: tuple[float, ...]
    arrivals_s: tuple[float, ...]


def run_mode(
    figures: Sequence[ChainFigures],
    plans: Path,
    device: DeviceSettings,
    *,
    load: float,
    seconds: float,
) -> ModeFigures:
    """The same seeded Poisson arrivals for each mode.

    Args:
        figures: The models, as measured alone.
        plans: Folder of their plans.
        device: With the mode.
        load: Isolated run time that arrives per second.
        seconds: How long requests come.
    """
    simulated = [
        SimulatedModel(name=each.model, isolated_s=each.whole_s, block_times_s=each.block_times_s) for each in figures
    ]
    arrivals = make_arrivals(simulated, load=load, num_per_model=_MAX_PER_MODEL, seed=0)
    is_split = device.sharing.preemption != "never"
    models = [
        _Model(
            folder=str(plans / each.name),
            isolated_s=each.isolated_s,
            times_s=each.block_times_s if is_split else (each.isolated_s,),
            arrivals_s=_arrivals_of(arrivals, each.name, seconds),
        )
        for each in simulated
    ]
    answers, turns = _serve_all(models, device)
    ratios = [answer.ratio for answer in answers]
    gaps_us = _handovers_us(answers, turns) if device.sharing.exclusive else []
    return ModeFigures(
        mode=device.mode,
        num_requests=len(ratios),
        violations=tuple(violation_share(ratios, alpha) for alpha in ALPHAS),
        p99_ratio=float(np.percentile(ratios, 99)),
        handovers_us=(float(np.percentile(gaps_us, 50)), float(np.percentile(gaps_us, 99))) if gaps_us else None,
    )


def _arrivals_of(arrivals: Sequence[Arrival], model: str, seconds: float) -> tuple[float, ...]:
    return tuple(each.arrival_s for each in arrivals if each.model == model and each.arrival_s < seconds)


def _handovers_us(answers: Sequence[_Answer], turns: Sequence[Slice]) -> list[float]:
    """Idle times between turns of different processes, where the later one's request was there already."""
    arrival_s = {answer.request_id: answer.arrival_s for answer in answers}
    ordered = sorted(turns, key=lambda turn: turn.start_s)
    return [
        (b.start_s - a.end_s) * 1e6
        for a, b in pairwise(ordered)
        if a.model != b.model and arrival_s[b.request_id] < a.end_s
    ]


def _serve_all(models: Sequence[_Model], device: DeviceSettings) -> tuple[list[_Answer], list[Slice]]:
    """All requests with their answers, and all turns."""
    with tempfile.TemporaryDirectory(prefix="dlir-mix-") as folder:
        allocator, theirs = _PROCESSES.Pipe()
        processes = [_PROCESSES.Process(target=serve_allocator, args=(folder, device, theirs))]
        processes[0].start()
        socket_path = allocator.recv()
        pipes: list[Connection] = []
        for model in models:
            mine, theirs = _PROCESSES.Pipe()
            pipes.append(mine)
            processes.append(_PROCESSES.Process(target=_serve_model, args=(model, socket_path, device, theirs)))
            processes[-1].start()
        try:
            for pipe in pipes:
                pipe.recv()  # loaded and warm
            allocator.send(0)
            num_warm_up = len(allocator.recv())
            start_s = time.monotonic() + _LEAD_S
            for pipe in pipes:
                pipe.send(start_s)
            answers = [answer for pipe in pipes for answer in pipe.recv()]
            allocator.send(num_warm_up)
            turns: list[Slice] = allocator.recv()
        finally:
            for pipe in (*pipes, allocator):
                with contextlib.suppress(OSError):  # that process has died
                    pipe.send(None)
            for process in processes:
                process.join(10)
                process.kill()
    return answers, turns


def _serve_model(model: _Model, socket_path: str, device: DeviceSettings, pipe: Connection) -> None:
    """A process: loads one model, says so, takes the start time, gives the answers, and ends on None."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    folder = Path(model.folder)
    plan = SplitPlan.load(folder)
    is_split = device.sharing.preemption != "never"
    backend = backend_of(device)
    thread = DeviceThread(
        model=plan.model,
        load=lambda: backend.load(plan, folder, device, is_split=is_split),
        memory_bytes=sum(backend.memory_bytes(plan, folder, device, is_split=is_split)),
        block_times=BlockTimes(model.times_s, model.isolated_s),
        settings=device,
        find_socket=lambda: Path(socket_path),
    )
    requests = _Requests(model, thread, random_inputs(plan))
    requests.send([time.monotonic()] * 3)
    pipe.send("warm")
    start_s = pipe.recv()
    pipe.send(requests.send([start_s + arrival_s for arrival_s in model.arrivals_s]))
    pipe.recv()
    thread.close()


class _Requests:
    """Sends requests of one model at given times."""

    def __init__(self, model: _Model, thread: DeviceThread, inputs: dict[str, np.ndarray]) -> None:
        self._model, self._thread, self._inputs = model, thread, inputs

    def send(self, times_s: Sequence[float]) -> list[_Answer]:
        """The answers to requests that come at these times of the monotonic clock.

        Raises:
            Exception: What a request was answered with instead of a result.
        """
        answered = threading.Semaphore(0)
        answers: list[_Answer] = []
        failures: list[Exception] = []
        isolated_s = self._model.isolated_s

        def on_result(request: Request, result: Result) -> None:
            ratio = (time.monotonic() - request.arrival_s) / isolated_s
            answers.append(_Answer(request.request_id, request.arrival_s, ratio))
            if isinstance(result, Exception):
                failures.append(result)
            answered.release()

        for arrival_s in times_s:
            time.sleep(max(0.0, arrival_s - time.monotonic()))
            request = Request(
                request_id=RequestId(uuid4().hex),
                model=self._thread.owner.partition("/")[0],
                owner=self._thread.owner,
                arrival_s=arrival_s,
                isolated_s=isolated_s,
                block_times_s=self._model.times_s,
                deadline_s=arrival_s + _DEADLINE_ALPHA * isolated_s,
            )
            self._thread.submit(request, self._inputs, partial(on_result, request))
        for _ in times_s:
            answered.acquire()
        if failures:
            raise failures[0]
        return answers
