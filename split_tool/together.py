"""Several models, split one after the other into one folder: those that will share a device."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from split_tool.errors import SplitToolError
from split_tool.job import start_job
from split_tool.machine import describe_machine, is_same_machine
from split_tool.measure import WARM_UP_RUNS
from split_tool.plan import SplitPlan, SplitRequest
from split_tool.progress import Report
from split_tool.sessions import Device
from split_tool.source import read_source
from split_tool.splitting import split, up_to_date

SHORTEST_BLOCK_MS = 2.0
"""No block is wanted shorter than this: each costs some tenths of a millisecond."""

STILL_FITS = 1.5
"""Plans stay while the shortest model takes at most so many times more or less than when they were made."""

_MEASURE_S = 1.0
_MIN_RUNS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What happened to one model.

    Attributes:
        plan: Its plan.
        folder: Where it lies.
        is_new: It was made now; otherwise it was up to date.
    """

    plan: SplitPlan
    folder: Path
    is_new: bool


def shared_block_ms(isolated_ms: Iterable[float]) -> float:
    """The longest block for models that share a device, in ms: as long as the shortest of them takes alone.

    A request of that model, with a deadline of 4 times that, can then wait for the block at hand and still has some of
    it left for its way and for others; shorter blocks cost more of the device than they win. Rounded to half a
    millisecond.

    Args:
        isolated_ms: How long each model takes alone, at least one.
    """
    return max(SHORTEST_BLOCK_MS, round(2 * min(isolated_ms)) / 2)


def split_all(
    paths: Mapping[str, Path],
    out: Path,
    *,
    num_threads: int,
    force: bool,
    max_block_ms: float | None = None,
    is_shared: bool = False,
    reporter: Callable[[str], Report],
    on_done: Callable[[Result], None],
) -> list[Result]:
    """Split models into ``out``, one folder each, leaving alone what is up to date and replacing what is not.

    Args:
        paths: Model files, by the names that the models shall have.
        out: Folder for all of them.
        num_threads: Intra-op threads to measure with.
        force: Split again even what is up to date.
        max_block_ms: Wanted longest block of every model.
        is_shared: The models share a device: without ``max_block_ms`` the longest block of all is ``shared_block_ms``.
            Otherwise the tool chooses for each.
        reporter: Gives the progress report for a model.
        on_done: Called after each.

    Raises:
        SplitToolError: As ``split`` raises it; models split before stay so.
    """
    device = Device(num_threads=num_threads)
    if is_shared and max_block_ms is None:
        known_ms = None if force else _known_block_ms([out / name for name in paths], device)
        max_block_ms = known_ms or shared_block_ms(
            _isolated_ms(path, device, reporter(name)) for name, path in paths.items()
        )
    request = SplitRequest(max_block_ms=max_block_ms)
    results: list[Result] = []
    for name, path in paths.items():
        folder = out / name
        plan = None if force else up_to_date(read_source(path), folder, request, device, name)
        is_new = plan is None
        if plan is None:
            plan = split(
                path,
                folder,
                name=name,
                max_block_ms=max_block_ms,
                num_threads=num_threads,
                force=True,
                budget_s=2.0,
                report=reporter(name),
            )
        results.append(Result(plan=plan, folder=folder, is_new=is_new))
        on_done(results[-1])
    return results


def _known_block_ms(folders: Iterable[Path], device: Device) -> float | None:
    """The longest block that plans in all these folders were made for, if it still fits on this machine."""
    try:
        plans = [SplitPlan.load(folder) for folder in folders]
    except SplitToolError:
        return None
    machine = describe_machine(device)
    wanted = {plan.request.max_block_ms for plan in plans}
    is_here = all(is_same_machine(plan.measured_on, machine) for plan in plans)
    if not is_here or len(wanted) != 1 or (block_ms := wanted.pop()) is None:
        return None
    now_ms = shared_block_ms(plan.isolated_ms for plan in plans)
    return block_ms if now_ms / STILL_FITS <= block_ms <= now_ms * STILL_FITS else None


def _isolated_ms(path: Path, device: Device, report: Report) -> float:
    """How long the whole model takes alone: the median of about a second, in ms.

    Raises:
        SplitToolError: If it cannot be loaded or accepts no generated input.
    """
    with tempfile.TemporaryDirectory(prefix="dlir-split-") as work:
        job = start_job(
            read_source(path),
            device,
            SplitRequest(),
            None,
            Path(work),
            num_samples=1,
            seed=0,
            budget_s=_MEASURE_S,
            report=report,
        )
        report("how long it takes alone", 0.0)
        for _ in range(WARM_UP_RUNS):
            job.bench.whole()
        runs_s: list[float] = []
        end_s = time.perf_counter() + _MEASURE_S
        while len(runs_s) < _MIN_RUNS or time.perf_counter() < end_s:
            began_s = device.clock()
            job.bench.whole()
            runs_s.append(device.clock() - began_s)
    return statistics.median(runs_s) * 1e3
