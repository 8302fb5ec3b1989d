"""The best proved way to cut a model: of the graph ONNX Runtime has optimised, or of the user's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from split_tool.branch_choice import with_open_branches
from split_tool.choose import wanted_block_ms
from split_tool.cutting import Cutting, prepare
from split_tool.errors import ModelRefusedError, NotEquivalentError
from split_tool.job import Job
from split_tool.measure import measure
from split_tool.plan import Proof
from split_tool.profile import NUM_PROFILE_RUNS
from split_tool.proving import compare
from split_tool.search import Trial, search
from split_tool.sessions import optimised_target, user_target
from split_tool.slice_choice import with_slices
from split_tool.turns import turn

USER_GRAPH_PENALTY = 0.02
INEXACT_PENALTY = 0.05

GOOD_OVERHEAD = 0.03
"""The optimised graph is taken without looking at the user's if it costs no more than this."""


def best_trial(job: Job) -> tuple[Trial, Proof]:
    """The better proved trial of the graphs that the request allows, its times from a longer measurement.

    Raises:
        ModelRefusedError: If no graph can be loaded and cut.
        NotEquivalentError: If no chain gives what the whole model gives.
    """
    kinds = ["optimised", "user"] if job.request.graph == "auto" else [job.request.graph]
    found: list[tuple[Trial, Proof]] = []
    refusals: list[ModelRefusedError | NotEquivalentError] = []
    for kind in kinds:
        try:
            work = job.work / kind
            work.mkdir()
            job.bench.report(f"{kind} graph: loading and profiling", 0.0)
            num_blocks = len(found[0][0].files) if found else None
            trial = search(_cutting(job, kind, work), job.request, job.bench, work, num_blocks=num_blocks)
            proof = compare(
                job.source,
                job.whole,
                trial.files,
                job.device,
                job.samples,
                seed=job.seed,
                is_optimised=trial.cutting.target.is_optimised,
            )
        except (ModelRefusedError, NotEquivalentError) as error:
            refusals.append(error)
            continue
        found.append((trial, proof))
        if trial.measured.overhead <= GOOD_OVERHEAD or len(trial.files) == 1:
            break
    if not found:
        raise refusals[0]
    trial, proof = min(found, key=_rank)
    return _measured_again(job, trial), proof


def _rank(pair: tuple[Trial, Proof]) -> float:
    """Less is better; the user's graph must win by more than noise, and bit-identical results are worth a little."""
    trial, proof = pair
    penalty = 0.0 if trial.cutting.target.is_optimised else USER_GRAPH_PENALTY
    return trial.score + penalty + (0.0 if proof.verdict == "bit-identical" else INEXACT_PENALTY)


def _cutting(job: Job, kind: str, work: Path) -> Cutting:
    target = optimised_target(job.source, job.device, work) if kind == "optimised" else user_target(job.source)
    feeds, report = job.bench.feeds, job.bench.report
    cutting = prepare(target, feeds, job.device, work)
    wanted_ms = wanted_block_ms(job.request, lambda: _whole_ms(job))
    cutting = with_open_branches(cutting, wanted_ms, feeds, work, report=report)
    if job.request.max_block_ms is None:
        return cutting
    return with_slices(cutting, wanted_ms, feeds, work, report=report)


def _whole_ms(job: Job) -> float:
    """The whole model's time, the quietest of a few runs; a profile's times add up to more."""
    times_s: list[float] = []
    for _ in range(NUM_PROFILE_RUNS):
        with turn():
            begin_s = job.device.clock()
            job.bench.whole()
            times_s.append(job.device.clock() - begin_s)
    return 1000 * min(times_s)


def _measured_again(job: Job, trial: Trial) -> Trial:
    """The chosen trial with the times that go into the plan."""
    measured = measure(
        job.bench.whole,
        trial.cutting.load(trial.files),
        job.bench.feeds,
        job.bench.keep,
        budget_s=1.5 * job.bench.budget_s,
        min_rounds=9,
        on_round=lambda share: job.bench.report("measuring the chosen blocks", share),
    )
    return replace(trial, measured=measured)
