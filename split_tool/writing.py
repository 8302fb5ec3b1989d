"""A finished split as files: the plan, the block files and the whole model."""

from __future__ import annotations

import shutil
from pathlib import Path

from split_tool.job import Job
from split_tool.machine import describe_machine
from split_tool.notes import notes_for
from split_tool.plan import SCHEMA_VERSION, WHOLE_MODEL_FILE, Block, ExternalFile, Proof, SplitPlan, sha256_of_file
from split_tool.search import Trial, trade_off
from split_tool.source import BLOCK_FOLDER


def plan_of(job: Job, trial: Trial, proof: Proof, name: str) -> SplitPlan:
    """The plan of a proved trial."""
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
    folder = job.source.folder
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


def write_plan(job: Job, trial: Trial, plan: SplitPlan, made: Path) -> None:
    """Put everything into the folder that becomes the plan folder."""
    shutil.copyfile(job.source.path, made / WHOLE_MODEL_FILE)
    for name in job.source.external_files:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(job.source.folder / name, made / name)
    trial.files[0].parent.rename(made / BLOCK_FOLDER)
    plan.save(made)
