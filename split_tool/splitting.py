"""Splits a model: the one function behind ``python -m split_tool split``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import onnxruntime as ort

from split_tool.cache import cache_key, put, take
from split_tool.chain import feeds_to_ort
from split_tool.cutting import Cutting, prepare
from split_tool.errors import ModelRefusedError, NotEquivalentError, OptionError
from split_tool.folders import check_free, existing_plan, written_aside
from split_tool.machine import describe_machine, is_same_machine
from split_tool.measure import measure
from split_tool.model_graph import cut_graph
from split_tool.notes import notes_for
from split_tool.plan import (
    SCHEMA_VERSION,
    WHOLE_MODEL_FILE,
    Block,
    ExternalFile,
    Proof,
    SplitPlan,
    SplitRequest,
    sha256_of_file,
)
from split_tool.progress import Report, silent
from split_tool.proving import prove
from split_tool.samples import Sampler, find_sampler
from split_tool.search import Bench, Trial, search, trade_off
from split_tool.sessions import Device, one_line, open_session, optimised_target, session_options, user_target
from split_tool.slice_choice import with_slices
from split_tool.source import BLOCK_FOLDER, Source, read_source

NUM_PROFILE_RUNS = 5
USER_GRAPH_PENALTY = 0.02
INEXACT_PENALTY = 0.05

GOOD_OVERHEAD = 0.03
"""The optimised graph is taken without looking at the user's if it costs no more than this."""


def split(
    path: Path | str,
    out: Path | str,
    *,
    blocks: int | None = None,
    max_block_ms: float | None = None,
    name: str | None = None,
    num_threads: int = 1,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    graph: Literal["auto", "optimised", "user"] = "auto",
    force: bool = False,
    num_samples: int = 3,
    seed: int = 0,
    samples: Mapping[str, Any] | None = None,
    budget_s: float = 2.0,
    cache: Path | None = None,
    report: Report = silent,
) -> SplitPlan:
    """Split an ONNX model into consecutive blocks of even run time and write them with their plan.

    Args:
        path: The model file.
        out: Folder for the plan; written aside and renamed at the end, so it is never half there.
        blocks: Wanted number of blocks.
        max_block_ms: Wanted longest block, in milliseconds. With neither, the tool chooses.
        name: Name of the model: letters, digits, ``_`` and ``-``. The file's name by default.
        num_threads: Intra-op threads that the times are measured with.
        input_shapes: Shapes to measure with, for inputs with open axes.
        graph: Which graph to cut: the one ONNX Runtime has ``optimised``, the ``user``'s, or what measures better.
        force: Split again even if the plan in ``out`` is up to date, and replace any other.
        num_samples: Random inputs on which chain and whole model are compared.
        seed: Seed of the first of them.
        samples: Real inputs, by name, to measure and compare with in addition.
        budget_s: Seconds per measurement.
        cache: Folder with plans by content, model, request, machine and runtime: the plan is taken from there if it is
            there, and kept there if not. Not used with real ``samples``.
        report: Told about progress.

    Returns:
        The plan, as it stands in ``out``. If ``out`` holds a plan of the same model, machine and request already, that;
        one that differs in machine or runtime only is made anew and replaced.

    Raises:
        ModelRefusedError: If the model cannot be loaded, or not be split; nothing is written.
        NotEquivalentError: If no way to cut gives what the whole model gives; nothing is written.
        InputsNotFoundError: If no generated input is accepted.
        OptionError: If an option makes no sense.
        FolderOccupiedError: If ``out`` must not be written.
    """
    path, out = Path(path), Path(out)
    request = SplitRequest(blocks=blocks, max_block_ms=max_block_ms, graph=graph, input_shapes=dict(input_shapes or {}))
    model_name = name if name is not None else default_name(path)
    _check_options(request, model_name, num_threads, num_samples)
    source = read_source(path)
    device = Device(num_threads=num_threads)
    machine = describe_machine(device)
    if not force and (plan := up_to_date(source, out, request, device, model_name)) is not None:
        return plan
    check_free(out, force=force or _is_of(existing_plan(out), source, request, model_name))
    key = None if cache is None or samples is not None else cache_key(source, request, model_name, machine)
    if cache and key and not force and (plan := take(cache, key, out)) is not None:
        return plan
    with written_aside(out) as (made, work):
        job = _start(source, device, request, samples, work, budget_s, report)
        trial, proof = _best(job, num_samples, seed)
        plan = _plan(job, trial, proof, model_name)
        _write(job, trial, plan, made)
    if cache and key:
        put(cache, key, out)
    return plan


def default_name(path: Path) -> str:
    """The file's name as a model name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", path.stem).strip("_") or "model"


def up_to_date(source: Source, out: Path, request: SplitRequest, device: Device, name: str) -> SplitPlan | None:
    """The plan in ``out`` if it is of this model, request, runtime and machine; None otherwise."""
    plan = existing_plan(out)
    if plan is None or not _is_of(plan, source, request, name):
        return None
    folder = source.path.resolve().parent
    hashes = {file.path: file.sha256 for file in plan.external_files}
    if any(hashes.get(file) != sha256_of_file(folder / file) for file in source.external_files):
        return None
    return plan if is_same_machine(plan.measured_on, describe_machine(device)) else None


def _is_of(plan: SplitPlan | None, source: Source, request: SplitRequest, name: str) -> bool:
    """True for a plan of this model file, request and name, on whatever machine."""
    return plan is not None and plan.source_sha256 == source.sha256 and plan.request == request and plan.model == name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    source: Source
    device: Device
    request: SplitRequest
    work: Path
    whole: ort.InferenceSession
    sampler: Sampler
    samples: Mapping[str, Any] | None
    bench: Bench


def _start(
    source: Source,
    device: Device,
    request: SplitRequest,
    samples: Mapping[str, Any] | None,
    work: Path,
    budget_s: float,
    report: Report,
) -> _Job:
    """Load the whole model as the user would, find inputs for it, and set up the bench."""
    report("loading the whole model", 0.0)
    cut_graph(source.model)  # says where a cycle is, which the runtime does not
    whole = open_session(source.path, device, session_options(device, optimise=True))
    keep = list(dict.fromkeys(spec.name for spec in source.outputs))
    run = _runner(whole, source, keep)

    def accepts(feeds: Mapping[str, Any]) -> str | None:
        try:
            run(feeds_to_ort(feeds, source.inputs))
        except Exception as error:  # the runtime raises several unrelated classes
            return one_line(error)
        return None

    if samples is not None:
        missing = [spec.name for spec in source.inputs if spec.name not in samples and spec.kind != "optional"]
        if missing:
            raise OptionError(f"the sample inputs lack {', '.join(missing)}")
        if (reason := accepts(samples)) is not None:
            raise OptionError(f"the model does not accept the sample inputs: {reason}")
        sampler = Sampler(specs=(), shapes={}, integer_limit=1)
        first = feeds_to_ort(samples, source.inputs)
    else:
        sampler = find_sampler(source.inputs, request.input_shapes, accepts)
        first = feeds_to_ort(sampler.feeds(0), source.inputs)
    bench = Bench(whole=lambda: run(first), feeds=first, keep=keep, budget_s=budget_s, report=report)
    return _Job(
        source=source,
        device=device,
        request=request,
        work=work,
        whole=whole,
        sampler=sampler,
        samples=samples,
        bench=bench,
    )


def _runner(
    whole: ort.InferenceSession, source: Source, keep: list[str]
) -> Callable[[Mapping[str, ort.OrtValue]], list[ort.OrtValue]]:
    def run(feeds: Mapping[str, ort.OrtValue]) -> list[ort.OrtValue]:
        made: list[ort.OrtValue] = whole.run_with_ort_values(keep, dict(feeds))
        return made

    return run


def _best(job: _Job, num_samples: int, seed: int) -> tuple[Trial, Proof]:
    """The better proved trial of the graphs that the request allows."""
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
            proof = prove(job.source, job.whole, trial, job.device, _feeds(job, num_samples, seed), seed=seed)
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


def _cutting(job: _Job, kind: str, work: Path) -> Cutting:
    target = optimised_target(job.source, job.device, work) if kind == "optimised" else user_target(job.source)
    cutting = prepare(target, job.bench.feeds, job.device, work, num_profile_runs=NUM_PROFILE_RUNS)
    if job.request.max_block_ms is None:
        return cutting
    return with_slices(
        cutting,
        job.request.max_block_ms,
        job.bench.feeds,
        work,
        num_profile_runs=NUM_PROFILE_RUNS,
        report=job.bench.report,
    )


def _feeds(job: _Job, num_samples: int, seed: int) -> list[Mapping[str, Any]]:
    if job.samples is not None:
        return [job.samples]
    return [job.sampler.feeds(seed + index) for index in range(num_samples)]


def _measured_again(job: _Job, trial: Trial) -> Trial:
    """The chosen trial with the times that go into the plan, from a longer measurement."""
    measured = measure(
        job.bench.whole,
        trial.cutting.load(trial.files),
        job.bench.feeds,
        job.bench.keep,
        budget_s=1.5 * job.bench.budget_s,
        min_rounds=9,
        on_round=lambda share: job.bench.report("measuring the chosen blocks", share),
    )
    return Trial(cutting=trial.cutting, cuts=trial.cuts, files=trial.files, measured=measured)


def _plan(job: _Job, trial: Trial, proof: Proof, name: str) -> SplitPlan:
    cutting = trial.cutting
    blocks = tuple(
        Block(
            file=f"{BLOCK_FOLDER}/{file.name}",
            sha256=sha256_of_file(file),
            inputs=parts.inputs,
            outputs=parts.outputs,
            num_nodes=len(parts.operators),
            time_ms=time_ms,
            file_bytes=file.stat().st_size,
        )
        for file, parts, time_ms in zip(trial.files, cutting.parts(trial.cuts), trial.measured.block_ms, strict=True)
    )
    beside = [file.with_name(file.name + ".data") for file in trial.files]
    external = [ExternalFile(path=f"{BLOCK_FOLDER}/{f.name}", sha256=sha256_of_file(f)) for f in beside if f.exists()]
    folder = job.source.path.resolve().parent
    external += [ExternalFile(path=f, sha256=sha256_of_file(folder / f)) for f in job.source.external_files]
    return SplitPlan(
        schema_version=SCHEMA_VERSION,
        model=name,
        source_sha256=job.source.sha256,
        inputs=job.source.inputs,
        outputs=job.source.outputs,
        graph="optimised" if cutting.target.is_optimised else "user",
        isolated_ms=trial.measured.isolated_ms,
        chain_ms=trial.measured.chain_ms,
        blocks=blocks,
        cuts=tuple(cutting.describe(position) for position in trial.cuts),
        measured_on=describe_machine(job.device),
        proof=proof,
        notes=notes_for(trial, job.request),
        request=job.request,
        external_files=tuple(external),
        sliced=cutting.sliced,
        trade_off=trade_off(trial),
    )


def _write(job: _Job, trial: Trial, plan: SplitPlan, made: Path) -> None:
    """Put everything into the folder that becomes the plan folder."""
    shutil.copyfile(job.source.path, made / WHOLE_MODEL_FILE)
    for name in job.source.external_files:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(job.source.path.resolve().parent / name, made / name)
    trial.files[0].parent.rename(made / BLOCK_FOLDER)
    plan.save(made)


def _check_options(request: SplitRequest, name: str, num_threads: int, num_samples: int) -> None:
    if request.blocks is not None and request.max_block_ms is not None:
        raise OptionError("give --blocks or --max-block-ms, not both")
    if request.blocks is not None and request.blocks < 1:
        raise OptionError(f"--blocks {request.blocks}: at least 1")
    if request.max_block_ms is not None and not request.max_block_ms > 0:
        raise OptionError(f"--max-block-ms {request.max_block_ms}: must be greater than 0")
    if num_threads < 1:
        raise OptionError(f"--threads {num_threads}: at least 1")
    if num_samples < 1:
        raise OptionError(f"--samples {num_samples}: at least 1")
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise OptionError(f"--name {name!r}: letters, digits, '_' and '-' only")
