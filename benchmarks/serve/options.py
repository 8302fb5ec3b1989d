"""What the command line of the live benchmark says."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serve.competitors import COMPETITORS, Competitor
from benchmarks.serve.senders import Via
from benchmarks.serve.workload import Workload

PEER_PYTHON = Path(".venv-peers/bin/python")
DEFAULT_OUT = Path("out/bench")
_QUICK_COMPETITORS = ("slo", "fifo", "parallel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """See ``parse_options``.

    Attributes:
        config: Configuration file with the models.
        models_folder: Folder of split models to measure instead; None: ``config``.
        models: Only these; empty: all.
        competitors: Who is measured.
        workload: The arrivals.
        loads: Shares of the device's time; ``(None,)`` for a closed loop.
        num_rounds: Rounds of each competitor.
        via: The way to the servers.
        is_pinned: The device's cores are the device's alone.
        peer_python: The Python of the environment with other servers.
        out: Folder of the results.
        is_resumed: Rounds that are there stay.
        is_report_only: Nothing is measured.
        json: Where the figures go as well; None: only into ``out``.
    """

    config: Path
    models_folder: Path | None
    models: tuple[str, ...]
    competitors: tuple[Competitor, ...]
    workload: Workload
    loads: tuple[float | None, ...]
    num_rounds: int
    via: Via
    is_pinned: bool
    peer_python: Path
    out: Path
    is_resumed: bool
    is_report_only: bool
    json: Path | None


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    """The options of the command line; exits with a message if they make no sense."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if unknown := set(parsed.competitor) - set(COMPETITORS):
        parser.error(f"no competitor {', '.join(sorted(unknown))}: there are {', '.join(COMPETITORS)}")
    names = parsed.competitor or (_QUICK_COMPETITORS if parsed.quick else COMPETITORS)
    seconds = parsed.seconds or (6.0 if parsed.quick else 15.0)
    num_rounds = parsed.rounds or (1 if parsed.quick else 5)
    loads = tuple(dict.fromkeys(parsed.load or [0.8]))
    if min(seconds, num_rounds, *loads) <= 0 or parsed.seed < 0:
        parser.error("--seconds, --rounds and --load must be positive, --seed not negative")
    if (parsed.source == "trace") != (parsed.trace is not None):
        parser.error("--source trace and --trace FILE belong together")
    if parsed.via != "http" and any(COMPETITORS[name].kind != "ours" for name in names):
        if parsed.competitor:
            parser.error(f"--via {parsed.via} is for this system's own modes: leave the others out")
        names = [name for name in names if COMPETITORS[name].kind == "ours"]
    mapped = [entry.partition("=") for entry in parsed.map]
    if any(not name or not model for name, _, model in mapped):
        parser.error("--map takes NAME=MODEL")
    return Options(
        config=parsed.config,
        models_folder=parsed.models,
        models=tuple(dict.fromkeys(parsed.model)),
        competitors=tuple(COMPETITORS[name] for name in dict.fromkeys(names)),
        workload=Workload(
            source=parsed.source,
            cv=parsed.cv,
            trace=parsed.trace,
            mix=parsed.mix,
            names={name: model for name, _, model in mapped},
            num_clients=parsed.clients,
            think_s=parsed.think_ms / 1e3,
            seconds=seconds,
            seed=parsed.seed,
        ),
        loads=(None,) if parsed.source == "closed" else loads,
        num_rounds=num_rounds,
        via=parsed.via,
        is_pinned=not parsed.unpinned,
        peer_python=parsed.peer_python,
        out=parsed.out,
        is_resumed=parsed.resume,
        is_report_only=parsed.report,
        json=parsed.json,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serve",
        description="The same open-loop load for this system in all its modes and for other servers, in interleaved "
        "rounds: late requests, jitter, tail latency and throughput of your models.",
    )
    models = parser.add_argument_group("models")
    models.add_argument("--config", type=Path, default=Path("config.yaml"), help="with the models (%(default)s)")
    models.add_argument("--models", type=Path, metavar="DIR", help="all split models in this folder instead")
    models.add_argument("--model", action="append", default=[], help="only this one; repeatable")
    who = parser.add_argument_group("competitors")
    who.add_argument("--competitor", action="append", default=[], help=f"repeatable (all): {', '.join(COMPETITORS)}")
    who.add_argument(
        "--peer-python", type=Path, default=PEER_PYTHON, help="of other servers; 'make peers' makes it (%(default)s)"
    )
    who.add_argument(
        "--unpinned", action="store_true", help="let every server use all cores; never mixed with pinned rounds"
    )
    who.add_argument("--via", choices=("http", "grpc", "handle"), default="http", help="(%(default)s)")
    load = parser.add_argument_group("load")
    load.add_argument(
        "--load", type=float, action="append", help="share of the device's time asked for; repeatable (0.8)"
    )
    load.add_argument("--rounds", type=int, help="of each competitor (5)")
    load.add_argument("--seconds", type=float, help="length of a round at each load (15)")
    load.add_argument("--quick", action="store_true", help="a look: slo, fifo and parallel, one round of 6 s")
    load.add_argument(
        "--source",
        choices=("poisson", "gamma", "onoff", "constant", "closed", "trace"),
        default="poisson",
        help="of arrivals (%(default)s)",
    )
    load.add_argument("--cv", type=float, default=2.0, help="gamma: coefficient of variation of gaps (%(default)s)")
    load.add_argument("--trace", type=Path, metavar="FILE", help="trace: recorded arrivals")
    load.add_argument("--mix", help="trace: which mix of a file with several")
    load.add_argument(
        "--map", action="append", default=[], metavar="NAME=MODEL", help="trace: a model of it is that one here"
    )
    load.add_argument("--clients", type=int, default=8, help="closed: how many (%(default)s)")
    load.add_argument("--think-ms", type=float, default=100, help="closed: mean pause of a client (%(default)s)")
    load.add_argument("--seed", type=int, default=0, help="of arrivals, inputs and order (%(default)s)")
    results = parser.add_argument_group("results")
    results.add_argument("--out", type=Path, default=DEFAULT_OUT, metavar="DIR", help="(%(default)s)")
    results.add_argument("--resume", action="store_true", help="keep the rounds in DIR and do what is missing")
    results.add_argument("--report", action="store_true", help="measure nothing, report what is in DIR")
    results.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too, a list of objects")
    return parser
