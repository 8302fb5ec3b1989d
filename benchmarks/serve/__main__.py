"""Does it beat what people would use instead? One command, for any models of yours, on any machine.

python -m benchmarks.serve                                   everything, about half an hour
python -m benchmarks.serve --quick                           a look
python -m benchmarks.serve --load 0.8 --load 1.1 --resume    what is missing, for instance after Ctrl-C
python -m benchmarks.serve --models DIR --out out/mine       your own split models
"""

from __future__ import annotations

import contextlib
import datetime
import signal
import sys
from collections.abc import Sequence

from rich.console import Console

from benchmarks.load.errors import LoadError
from benchmarks.load.inputs import prepare_arrays
from benchmarks.serve.competitors import Competitor, check_installed, peer_spec
from benchmarks.serve.errors import PeerMissingError
from benchmarks.serve.options import Options, parse_options
from benchmarks.serve.page import report
from benchmarks.serve.progress import RoundProgress
from benchmarks.serve.records import Records, Setting, describe_machine, package_versions
from benchmarks.serve.reference import Reference, allowed_cores, measure_references
from benchmarks.serve.rounds import Plan, Stopper, order_starts, run_start
from benchmarks.serve.subject import Subject, load_subject, write_config
from deployments.simulation.errors import SimulationError
from serve_app.errors import ServeAppError
from split_tool.errors import SplitToolError

_MAX_FAILED_STARTS = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 if every round was measured."""
    options = parse_options(arguments)
    console = Console()
    # Servers are sessions of their own: they would outlive a benchmark that is ended without ending them.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(options, console)
    except (LoadError, ServeAppError, SplitToolError, SimulationError) as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; --resume goes on")
        return 130


def _run(options: Options, console: Console) -> int:
    records = Records(options.out)
    config = options.config if options.models_folder is None else write_config(options.models_folder, options.out)
    subject = load_subject(config, options.out, models=options.models, is_pinned=options.is_pinned)
    num_cores = len(allowed_cores())
    num_failed = 0
    if not options.is_report_only:
        subject.leave_cores_to_device()
        num_failed = _measure(options, records, subject, console, num_cores)
    if records.is_empty:
        console.print("no round is finished: nothing to report", style="red")
        return 1
    report(records, console, json_path=options.json, policy_options=subject.device.policy_options)
    console.print(f"\nresults: {options.out}/page.html, page.png, results.json, tables.txt")
    return 1 if num_failed else 0


def _measure(options: Options, records: Records, subject: Subject, console: Console, num_cores: int) -> int:
    """Run all rounds that are missing; returns the number of starts that failed."""
    competitors = _installed(options, console)
    inputs = prepare_arrays(subject.metadata, seed=options.workload.seed)
    with console.status("plain ONNX Runtime: times and answers of the models alone"):
        references = measure_references(peer_spec(subject), inputs)
    setting = _setting(options, subject, references, num_cores)
    if options.is_resumed and not records.is_empty:
        setting = records.check_same(setting)
    else:
        records.begin(setting)
    starts = order_starts(
        competitors,
        loads=options.loads,
        num_rounds=options.num_rounds,
        seed=options.workload.seed,
        done={each.key for each in records.rounds()},
    )
    plan = Plan(
        subject=subject,
        setting=setting,
        workload=options.workload,
        inputs=inputs,
        wanted={model: reference.outputs for model, reference in references.items()},
        via=options.via,
        peer_python=options.peer_python,
    )
    for model, isolated_s in setting.isolated_s.items():
        console.print(f"{model}: alone {isolated_s * 1e3:.1f} ms", style="dim", highlight=False)
    progress = RoundProgress(console, starts, seconds=options.workload.seconds)
    console.print(f"{len(starts)} servers to start and load, about {progress.left_s / 60:.0f} minutes")
    failures: dict[str, int] = {}
    stopper = Stopper()
    with contextlib.ExitStack() as stack:
        stack.callback(stopper.wait)
        stack.enter_context(progress)
        for start in starts:
            name = start.competitor.name
            progress.on_starting(start)
            try:
                if failures.get(name, 0) < _MAX_FAILED_STARTS:
                    for finished in run_start(plan, start, progress, stopper):
                        records.append(finished)
            except LoadError as error:
                failures[name] = failures.get(name, 0) + 1
                console.print(f"{name}, round {start.number + 1} failed: {error}", style="red", markup=False)
            progress.on_ended(start)
    return sum(failures.values())


def _installed(options: Options, console: Console) -> list[Competitor]:
    competitors = []
    for competitor in options.competitors:
        try:
            check_installed(competitor, options.peer_python)
            competitors.append(competitor)
        except PeerMissingError as error:
            console.print(str(error), style="yellow", markup=False)
    return competitors


def _setting(options: Options, subject: Subject, references: dict[str, Reference], num_cores: int) -> Setting:
    return Setting(
        isolated_s={model: reference.isolated_s for model, reference in references.items()},
        alpha=subject.alpha,
        margin=subject.margin,
        margin_s=subject.margin_s,
        blocks_s={model: tuple(block.time_ms / 1e3 for block in plan.blocks) for model, plan in subject.plans.items()},
        planned_s={model: plan.isolated_ms / 1e3 for model, plan in subject.plans.items()},
        device=subject.device.device,
        is_pinned=subject.is_pinned,
        workload=options.workload.text,
        seconds=options.workload.seconds,
        seed=options.workload.seed,
        via=options.via,
        machine=describe_machine(num_cores),
        versions=package_versions(),
        date=datetime.date.today().isoformat(),
    )


if __name__ == "__main__":
    sys.exit(main())
