"""``python -m deployments.simulation``: policies on recorded and synthetic load, in virtual time."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from deployments.scheduling.errors import SchedulingError
from deployments.simulation.arrivals import SHAPES, ArrivalShape
from deployments.simulation.contenders import FINE_SPLIT, PAPER_CONTENDERS, Contender, read_contender
from deployments.simulation.costs import Costs
from deployments.simulation.errors import ModelTableError, SimulationError, UnknownModelError
from deployments.simulation.experiment import (
    Clients,
    Result,
    Setting,
    Workload,
    compare,
    run_contender,
    synthetic_workload,
)
from deployments.simulation.frontier import measure_frontier, plot_points
from deployments.simulation.gap import measure_gap
from deployments.simulation.models import models_from_plans, models_from_table, models_from_times, paper_models
from deployments.simulation.plots import plot_frontier, plot_scaling, plot_slices, plot_violations
from deployments.simulation.report import gap_table, models_table, results_table, scaling_table
from deployments.simulation.routers import ROUTERS
from deployments.simulation.scaling import Scaling, measure_scaling
from deployments.simulation.traces import Trace, mixes_in, read_trace
from deployments.simulation.workload import SimulatedModel
from split_tool.errors import SplitToolError

_WIDTH_OF_FILES = 150
_EXAMPLES = """\
contenders (--policy, may be given several times):
  NAME[;KEY=VALUE]...   NAME: a policy or a mode; KEY: split, alpha, preemption, or an option of the policy
  slo   'slo;late_reserve=none'   'slo;admission=anyone_waiting'   'oyst;split=vgg19=3,resnet50=2'   bnst   fifo

examples:
  python -m deployments.simulation --load 0.8 --load 1.1 --seeds 5
  python -m deployments.simulation --trace split_icpp23_records.csv.gz --mix all
  python -m deployments.simulation --plan models/vgg19 --plan models/squeezenet --policy slo --policy fifo --load 0.7
  python -m deployments.simulation --devices 1,4,16,64 --hop-ms 2 --load 0.9 --policy slo --seeds 1 --plot out
  python -m deployments.simulation --shape gamma --cv 3 --handover-ms 0.2 --cut-overhead-ms 0.05 --noise-cv 0.05
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deployments.simulation",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    models = parser.add_argument_group("models (default: the five of the paper SPLIT)")
    models.add_argument("--models", metavar="NAME=MS,...", help="isolated times in milliseconds")
    models.add_argument("--plan", type=Path, action="append", help="folder with a split plan; its blocks are used")
    models.add_argument("--split", metavar="NAME=BLOCKS,...", help="blocks of equal time, 'others' for all not named")
    load = parser.add_argument_group("load")
    load.add_argument("--trace", type=Path, help="recorded arrivals; see deployments/simulation/traces.py")
    load.add_argument("--mix", action="append", help="SPLIT records: which mix, or 'all'")
    load.add_argument("--recording", default="DLIR", help="SPLIT records: whose arrivals (default: %(default)s)")
    load.add_argument("--load", type=float, action="append", help="isolated run time per second (default: 0.8)")
    load.add_argument("--shape", choices=[*SHAPES, "closed"], default="poisson")
    load.add_argument("--cv", type=float, default=2.0, help="gamma: variation of the gaps (default: %(default)s)")
    load.add_argument("--clients", type=int, default=8, help="closed: number of clients (default: %(default)s)")
    load.add_argument("--think-ms", type=float, default=50.0, help="closed: mean think time (default: %(default)s)")
    load.add_argument("--requests", type=int, default=1000, help="arrivals per model (default: %(default)s)")
    load.add_argument("--seeds", type=int, default=3, help="variants, taken together (default: %(default)s)")
    load.add_argument("--first-seed", type=int, default=0, help="seed of the first variant (default: %(default)s)")
    policies = parser.add_argument_group("policies")
    policies.add_argument("--policy", action="append", help="contender, see below (default: the paper's comparison)")
    policies.add_argument("--alpha", type=float, default=4.0, help="deadline: arrival + alpha x isolated time")
    costs = parser.add_argument_group("costs")
    costs.add_argument("--handover-ms", type=float, default=0.0, help="device idle when it changes hands")
    costs.add_argument("--cut-overhead-ms", type=float, default=0.0, help="what a cut adds to its model (not to plans)")
    costs.add_argument("--noise-cv", type=float, default=0.0, help="variation of block times")
    costs.add_argument("--hop-ms", type=float, default=0.0, help="devices: going to another than where one came in")
    costs.add_argument("--interference", type=float, default=1.0, help="parallel: n at once take 1 + this x (n - 1)")
    devices = parser.add_argument_group("several devices (--load is for each of them)")
    devices.add_argument("--devices", metavar="N,...", help="instead: this many devices, one row each")
    devices.add_argument("--router", action="append", choices=[*ROUTERS], help="how to choose (default: all)")
    devices.add_argument("--per-node", type=int, metavar="N", help="devices of a node, which requests do not leave")
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="a JSON list instead of a table")
    output.add_argument("--by-model", action="store_true", help="also a table per model")
    output.add_argument("--plot", type=Path, metavar="FOLDER", help="write violation curves and a slice chart")
    output.add_argument("--frontier", action="store_true", help="instead: late requests against jitter, all policies")
    output.add_argument(
        "--optimum", type=int, metavar="N", help="instead: late requests above the offline optimum on N small instances"
    )
    return parser


def _models(options: argparse.Namespace, trace: Trace | None) -> dict[str, SimulatedModel]:
    if options.models and options.plan:
        raise ModelTableError(options.models, "state --models or --plan, not both")
    if options.models:
        return models_from_table(options.models)
    if options.plan:
        return models_from_plans(options.plan)
    if trace is not None and trace.isolated_s:
        return models_from_times(trace.isolated_s)
    if trace is not None:
        raise UnknownModelError(trace.arrivals[0].model, ())
    return paper_models()


def _workloads(options: argparse.Namespace) -> list[Workload]:
    if options.trace is not None:
        mixes: list[str | None] = list(options.mix or [None])
        if mixes == ["all"]:
            mixes = list(mixes_in(options.trace)) or [None]
        traces = [read_trace(options.trace, mix=mix, mode=options.recording) for mix in mixes]
        return [
            Workload(mix=trace.name, load=None, models=_models(options, trace), variants=[trace.arrivals])
            for trace in traces
        ]
    models = _models(options, None)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.shape == "closed":
        num_requests = options.requests * len(models)
        clients = Clients(
            num_clients=options.clients, think_s=options.think_ms / 1e3, num_requests=num_requests, seeds=seeds
        )
        return [Workload(mix="closed", load=None, models=models, variants=(), clients=clients)]
    shape = ArrivalShape(shape=options.shape, cv=options.cv)
    return [
        synthetic_workload(models, load=load, shape=shape, num_per_model=options.requests, seeds=seeds)
        for load in options.load or [0.8]
    ]


def _setting(options: argparse.Namespace) -> Setting:
    costs = Costs(
        handover_s=options.handover_ms / 1e3,
        cut_overhead_s=options.cut_overhead_ms / 1e3,
        noise_cv=options.noise_cv,
        interference=options.interference,
        hop_s=options.hop_ms / 1e3,
    )
    split = options.split
    if split is None and not options.models and not options.plan:
        split = FINE_SPLIT
    return Setting(costs=costs, split=split, alpha=options.alpha)


def _contenders(options: argparse.Namespace) -> list[Contender]:
    is_paper = not options.models and not options.plan
    if options.devices is not None and not options.policy:
        return [read_contender("slo")]
    default = PAPER_CONTENDERS if is_paper else ("parallel", "fifo", "bnst", "oyst", "dlir", "srpt", "edf", "slo")
    return [read_contender(text) for text in options.policy or default]


def _plot(contenders: Sequence[Contender], workloads: Sequence[Workload], setting: Setting, folder: Path) -> None:
    for workload in workloads:
        name = workload.mix if workload.load is None else f"{workload.mix}_{workload.load:g}"
        runs = {each.label: run_contender(each, workload, setting, record_slices=True) for each in contenders}
        plot_violations(runs, folder / f"violations_{name}.png", title=f"late requests, {name}")
        first = {label: each[0] for label, each in runs.items()}
        last_s = next(iter(first.values())).requests[-1].arrival_s
        plot_slices(
            first, folder / f"slices_{name}.png", title=f"turns, {name}", start_s=last_s / 2, end_s=last_s / 2 + 0.4
        )


def _scale(options: argparse.Namespace, contenders: Sequence[Contender], setting: Setting, console: Console) -> None:
    models = _models(options, None)
    workloads = [
        (
            num_devices,
            synthetic_workload(
                models,
                load=load * num_devices,
                shape=ArrivalShape(shape=options.shape, cv=options.cv),
                num_per_model=options.requests * num_devices,
                seeds=range(options.first_seed, options.first_seed + options.seeds),
            ),
        )
        for load in options.load or [0.8]
        for num_devices in _counts(options.devices)
    ]
    with Console(stderr=True).status("") as status:

        def on_result(row: Scaling) -> None:
            status.update(f"{row.policy}, {row.router}, {row.num_devices} devices: done")

        routers = options.router or [*ROUTERS]
        rows = measure_scaling(
            contenders, routers, workloads, setting, num_per_node=options.per_node, on_result=on_result
        )
    if options.json:
        print(json.dumps([row.as_json() for row in rows], indent=2))
    else:
        console.print(scaling_table(rows))
    if options.plot is not None:
        plot_scaling(rows, options.plot / "scaling.png")


def _counts(text: str) -> list[int]:
    if not all(each.isdecimal() and int(each) for each in text.split(",")):
        raise ModelTableError(text, "--devices takes whole numbers above 0 separated by commas")
    return [int(each) for each in text.split(",")]


def _run(options: argparse.Namespace) -> None:
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_FILES)
    contenders = _contenders(options)
    setting = _setting(options)
    if options.optimum is not None:
        gaps = measure_gap(contenders, num_instances=options.optimum, setting=setting)
        if options.json:
            print(json.dumps([gap.as_json() for gap in gaps], indent=2))
        else:
            console.print(gap_table(gaps))
        return
    if options.devices is not None:
        _scale(options, contenders, setting, console)
        return
    workloads = _workloads(options)
    with Console(stderr=True).status("") as status:

        def on_result(result: Result) -> None:
            status.update(f"{result.contender.label} on {result.workload.mix}: done")

        if options.frontier:
            frontier = measure_frontier(workloads[0], setting, on_result=on_result)
            results = [result for family in frontier.values() for result in family]
        else:
            results = compare(contenders, workloads, setting, on_result=on_result)
    if options.json:
        print(json.dumps([result.as_json() for result in results], indent=2))
    else:
        console.print(results_table(results, title=f"response ratios, deadline {options.alpha:g} x isolated time"))
        if options.by_model:
            console.print(models_table(results, title="per model"))
    if options.plot is not None and options.frontier:
        points = plot_points(frontier, alpha=setting.alphas[-1])
        title = f"late beyond {setting.alphas[-1]:g} x against jitter, {workloads[0].mix} {workloads[0].load or ''}"
        plot_frontier(points, options.plot / "frontier.png", title=title)
    elif options.plot is not None:
        _plot(contenders, workloads, setting, options.plot)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; the exit status."""
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except (SimulationError, SchedulingError, SplitToolError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
