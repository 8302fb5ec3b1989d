"""Splits a model: the one function behind ``python -m split_tool split``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from split_tool.best_trial import best_trial
from split_tool.cache import cache_key, put, take
from split_tool.errors import OptionError
from split_tool.folders import check_free, existing_plan, written_aside
from split_tool.job import start_job
from split_tool.machine import describe_machine, is_same_machine
from split_tool.plan import MeasuredOn, SplitPlan, SplitRequest, sha256_of_file
from split_tool.progress import Report, silent
from split_tool.sessions import Device
from split_tool.source import Source, read_source
from split_tool.turns import Turn, taking
from split_tool.writing import plan_of, write_plan


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
    turn: Turn = nullcontext,
) -> SplitPlan:
    """Split an ONNX model into consecutive blocks of even run time and write them with their plan.

    Args:
        path: The model file; its external weights beside it.
        out: Folder for the plan; written aside and renamed at the end, so it is never half there.
        blocks: Wanted number of blocks, at least 1; fewer come back where there are fewer places for a cut.
        max_block_ms: Wanted longest block, in milliseconds; operators that take longer are sliced inside where that
            pays, and the plan's notes say so if it cannot be reached. With neither, the tool chooses.
        name: Name of the model: letters, digits, ``_`` and ``-``. The file's name by default.
        num_threads: Intra-op threads that the times are measured with.
        input_shapes: Shapes to measure with, by input name, one size per axis; for inputs with open axes.
        graph: Which graph to cut: the one ONNX Runtime has ``optimised``, the ``user``'s, or what measures better.
        force: Split again even if the plan in ``out`` is up to date, and replace any other.
        num_samples: Random inputs on which chain and whole model are compared.
        seed: Seed of the first of them.
        samples: Real inputs to measure and compare with instead of random ones: for each input an array of its dtype
            and shape (text: object array of str), a list of arrays for a sequence; an optional one may be left out.
        budget_s: About so many seconds per measurement; several are made.
        cache: Folder with plans by content, model, request, machine and runtime: the plan is taken from there if it is
            there, and kept there if not. Not used with real ``samples``.
        report: Told about progress: what is done now, and the share of it that is done, 0 to 1.
        turn: Gives a context manager; every run that is measured runs inside of one. For a device that others use.

    Returns:
        The plan, as it stands in ``out``. If ``out`` holds a plan of the same model, machine and request already, that;
        one that differs in machine or runtime only is made anew and replaced.

    Raises:
        ModelRefusedError: If the model cannot be read, loaded or cut.
        NotEquivalentError: If no way to cut gives what the whole model gives.
        InputsNotFoundError: If no generated input is accepted.
        OptionError: If an option makes no sense, or ``samples`` do not fit the model.
        FolderOccupiedError: If ``out`` must not be written.
            Whatever is raised, ``out`` is as it was; all of them are ``SplitToolError``.
    """
    path, out = Path(path), Path(out)
    request = SplitRequest(blocks=blocks, max_block_ms=max_block_ms, graph=graph, input_shapes=dict(input_shapes or {}))
    model_name = name if name is not None else default_name(path)
    _check_options(request, model_name, num_threads, num_samples)
    source = read_source(path)
    device = Device(num_threads=num_threads)
    machine = describe_machine(device)
    before = None if force else existing_plan(out)
    if before is not None and _is_current(before, source, request, machine, model_name):
        return before
    check_free(out, force=force or _is_of(before, source, request, model_name))
    key = None if cache is None or samples is not None else cache_key(source, request, model_name, machine)
    if cache and key and not force and (plan := take(cache, key, out)) is not None:
        return plan
    with written_aside(out) as (made, work), taking(turn):
        job = start_job(
            source, device, request, samples, work, num_samples=num_samples, seed=seed, budget_s=budget_s, report=report
        )
        trial, proof = best_trial(job)
        plan = plan_of(job, trial, proof, model_name)
        write_plan(job, trial, plan, made)
    if cache and key:
        put(cache, key, out)
    return plan


def default_name(path: Path) -> str:
    """The file's name as a model name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", path.stem).strip("_") or "model"


def up_to_date(source: Source, out: Path, request: SplitRequest, device: Device, name: str) -> SplitPlan | None:
    """The plan in ``out`` if it is of this model, request, runtime and machine; None otherwise."""
    plan = existing_plan(out)
    is_current = plan is not None and _is_current(plan, source, request, describe_machine(device), name)
    return plan if is_current else None


def _is_current(plan: SplitPlan, source: Source, request: SplitRequest, machine: MeasuredOn, name: str) -> bool:
    """True for a plan of this model, its external weights, request, runtime and machine."""
    if not _is_of(plan, source, request, name):
        return False
    hashes = {file.path: file.sha256 for file in plan.external_files}
    same = all(hashes.get(file) == sha256_of_file(source.folder / file) for file in source.external_files)
    return same and is_same_machine(plan.measured_on, machine)


def _is_of(plan: SplitPlan | None, source: Source, request: SplitRequest, name: str) -> bool:
    """True for a plan of this model file, request and name, on whatever machine."""
    return plan is not None and plan.source_sha256 == source.sha256 and plan.request == request and plan.model == name


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
