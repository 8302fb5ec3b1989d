"""The point in one minute per mode: the same mixed load, answered in each mode of the server.

    python -m benchmarks.demo                          slo, fifo and parallel one after the other
    python -m benchmarks.demo --mode slo --mode dlir   these
    python -m benchmarks.demo --url http://host:8000   the server that runs there

Without ``--mode``, a server that answers at the URL is measured as it is. Otherwise the server is started for each
mode and stopped after it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.load.arrivals import synthetic_arrivals
from benchmarks.load.client import (
    HttpSender,
    fetch_metadata,
    is_ready,
    isolated_times_s,
    measure_alone,
    open_session,
)
from benchmarks.load.errors import LoadError, ServerRunningError, ServerUnreachableError
from benchmarks.load.inputs import picture_model, prepare_arrays, prepare_requests
from benchmarks.load.loops import run_open_loop
from benchmarks.load.plot import plot_modes
from benchmarks.load.progress import LoadProgress
from benchmarks.load.report import (
    Report,
    comparison_table,
    make_reports,
    report_table,
    response_ratio,
    to_json,
)
from benchmarks.load.server import running_server

DEFAULT_MODES = ("slo", "fifo", "parallel")
RUNNING_SERVER = "server"
ANSWER_TIMEOUT_S = 120.0
# Above this the generator's own lateness shows in the figures of small models.
LATENESS_WARNING_MS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says; see ``parse_options``."""

    config: Path
    url: str
    modes: tuple[str, ...]
    models: tuple[str, ...]
    plans: Path
    seconds: float
    load: float
    seed: int
    json: Path | None
    plot: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRun:
    """What one mode showed.

    Attributes:
        mode: Name of the mode; ``server`` for one that ran already.
        reports: One per model, then one over all.
        ratios: Response ratio of every request, infinite for failed ones.
    """

    mode: str
    reports: tuple[Report, ...]
    ratios: tuple[float, ...]


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    """The options of the command line; exits with a message if they make no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.demo",
        description="Mixed open-loop Poisson load over all models, the same in each mode of the server.",
    )
    parser.add_argument("--config", type=Path, default=Path("config.yaml"), help="of the server (%(default)s)")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of the server (%(default)s)")
    parser.add_argument(
        "--mode",
        action="append",
        default=[],
        help="start the server in this mode and measure it; repeatable. Without it: the server that answers at the "
        f"URL, or, if none does, {', '.join(DEFAULT_MODES)} one after the other",
    )
    parser.add_argument("--model", action="append", default=[], help="only this model; repeatable (all)")
    parser.add_argument(
        "--plans", type=Path, default=Path("models"), help="plan folders, if the server tells no times (%(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=60, help="length of each run (%(default)s)")
    parser.add_argument(
        "--load", type=float, default=0.8, help="share of the device's time that is asked for (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of arrivals and inputs (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, a list of objects")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a picture there (.png, .svg, .pdf)")
    parsed = parser.parse_args(arguments)
    if parsed.seconds <= 0 or parsed.load <= 0 or parsed.seed < 0:
        parser.error("--seconds and --load must be positive, --seed not negative")
    return Options(
        config=parsed.config,
        url=parsed.url.rstrip("/"),
        modes=tuple(dict.fromkeys(parsed.mode)),
        models=tuple(dict.fromkeys(parsed.model)),
        plans=parsed.plans,
        seconds=parsed.seconds,
        load=parsed.load,
        seed=parsed.seed,
        json=parsed.json,
        plot=parsed.plot,
    )


def run_demo(options: Options, console: Console) -> tuple[ModeRun, ...]:
    """Measure every mode and print a table for each, and one to compare them.

    Raises:
        LoadError: If a server cannot be started or measured; what was measured before it is printed already.
    """
    is_running = asyncio.run(_is_server_ready(options.url))
    if is_running and options.modes:
        raise ServerRunningError(
            f"a server answers at {options.url} already: stop it, or leave out --mode to measure it as it is"
        )
    runs: list[ModeRun] = []
    for mode in (RUNNING_SERVER,) if is_running else options.modes or DEFAULT_MODES:
        if is_running:
            runs.append(asyncio.run(_measure(options, mode, console)))
            _print_run(runs[-1], options, console)
            continue
        with contextlib.ExitStack() as stack:
            with console.status(f"{mode}: starting the server"):
                stack.enter_context(running_server(options.config, mode))
            runs.append(asyncio.run(_measure(options, mode, console)))
            _print_run(runs[-1], options, console)
            with console.status(f"{mode}: stopping the server"):
                stack.close()
    if len(runs) > 1:
        console.print(comparison_table([report for run in runs for report in run.reports]))
    return tuple(runs)


async def _is_server_ready(url: str) -> bool:
    async with open_session(timeout_s=5) as session:
        return await is_ready(session, url)


async def _measure(options: Options, mode: str, console: Console) -> ModeRun:
    """Load the server at the URL for the time given."""
    async with open_session(timeout_s=ANSWER_TIMEOUT_S) as session:
        if not await is_ready(session, options.url):
            raise ServerUnreachableError(f"no server is ready at {options.url}")
        metadata = await fetch_metadata(session, options.url, options.models)
        isolated_s = isolated_times_s(metadata, options.plans)
        requests = prepare_requests(prepare_arrays(metadata, seed=options.seed))
        arrivals = synthetic_arrivals(isolated_s, load=options.load, duration_s=options.seconds, seed=options.seed)
        sender = HttpSender(session, options.url, requests)
        alone_s = await measure_alone(sender, requests)
        for model in requests:
            console.print(
                f"{model}: alone {isolated_s[model] * 1e3:.1f} ms, over HTTP {alone_s[model] * 1e3:.1f} ms"
                + (", input: a real picture" if model == picture_model(metadata) else ""),
                style="dim",
                highlight=False,
            )
        progress = LoadProgress(console, mode=mode, num_arrivals=len(arrivals), isolated_s=isolated_s)
        with progress:
            outcomes = await run_open_loop(sender, arrivals, on_sent=progress.on_sent, on_finished=progress.on_finished)
    return ModeRun(
        mode=mode,
        reports=make_reports(outcomes, isolated_s, mode=mode),
        ratios=tuple(response_ratio(outcome, isolated_s) for outcome in outcomes),
    )


def _print_run(run: ModeRun, options: Options, console: Console) -> None:
    title = f"{run.mode}: {options.seconds:g} s of Poisson arrivals, load {options.load:g} of the device"
    console.print(report_table(run.reports, title=title))
    overall = run.reports[-1]
    for failure, count in overall.failures.items():
        console.print(f"{count} requests failed: {failure}", style="red", markup=False)
    if overall.first_detail:
        console.print(f"the first of them: {overall.first_detail}", style="red", markup=False)
    if overall.lateness_p99_ms > LATENESS_WARNING_MS:
        console.print(
            f"the load generator itself was late (p99 {overall.lateness_p99_ms:.1f} ms): this machine is short of "
            "processors, the figures of small models are too high",
            style="yellow",
        )


def _write_files(runs: Sequence[ModeRun], options: Options) -> None:
    reports = [report for run in runs for report in run.reports]
    if options.json is not None:
        options.json.write_text(json.dumps(to_json(reports), indent=2) + "\n")
    if options.plot is not None:
        subtitle = (
            f"{len(runs[0].ratios)} requests in {options.seconds:g} s to {len(runs[0].reports) - 1} models at "
            f"{options.load:.0%} load" + (", the same in every mode" if len(runs) > 1 else "")
        )
        plot_modes({run.mode: run.ratios for run in runs}, reports, options.plot, subtitle=subtitle)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if every mode was measured."""
    options = parse_options(arguments)
    console = Console()
    # The server is a session of its own: it would outlive a demo that is ended without ending it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        runs = run_demo(options, console)
    except LoadError as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    _write_files(runs, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
