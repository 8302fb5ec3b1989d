"""Plans kept by the content they were made from: model, weights, request, machine and runtime.

An optimised graph is valid for one kind of processor and one runtime. Who moves between machines, or goes back to an
earlier runtime, finds the plan of each here and need not measure again.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import msgspec

from split_tool.folders import existing_plan, written_aside
from split_tool.machine import lasting
from split_tool.plan import SCHEMA_VERSION, MeasuredOn, SplitPlan, SplitRequest, sha256_of_file
from split_tool.source import Source


def cache_key(source: Source, request: SplitRequest, name: str, where: MeasuredOn) -> str:
    """64 hexadecimal digits that are the same only where the same plan would be made; reads external weights once."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "source": source.sha256,
        "external": [(file, sha256_of_file(source.folder / file)) for file in source.external_files],
        "request": request,
        "name": name,
        "machine": lasting(where),
    }
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()


def take(cache: Path, key: str, out: Path) -> SplitPlan | None:
    """Copy the plan of ``key`` to ``out``, free or with a plan in it; None if there is none, or it is damaged."""
    plan = existing_plan(cache / key)
    if plan is None:
        return None
    _copy(cache / key, out)
    return plan


def put(cache: Path, key: str, folder: Path) -> None:
    """Keep a copy of the plan in ``folder`` under ``key``."""
    _copy(folder, cache / key)


def _copy(folder: Path, to: Path) -> None:
    with written_aside(to) as (made, _):
        shutil.copytree(folder, made, dirs_exist_ok=True)
