"""The plan folder: written aside, put in place in one step, never half."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from split_tool.errors import FolderOccupiedError, SplitToolError
from split_tool.plan import PLAN_FILE, SplitPlan


def check_free(out: Path, *, force: bool) -> None:
    """Make sure that ``out`` may be written.

    Raises:
        FolderOccupiedError: If it is a file, holds something that is no split plan, or holds a plan and ``force`` is
            not set.
    """
    if out.is_file():
        raise FolderOccupiedError(f"{out} is a file: give another --out")
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not (out / PLAN_FILE).is_file():
        raise FolderOccupiedError(f"{out} is not empty and holds no split plan: give another --out")
    if not force:
        raise FolderOccupiedError(f"{out} holds a plan of another model, machine or request: replace it with --force")


def existing_plan(out: Path) -> SplitPlan | None:
    """The plan in ``out`` if it can be read and its files are unchanged; None otherwise."""
    try:
        plan = SplitPlan.load(out)
        plan.check_files(out)
    except SplitToolError:
        return None
    return plan


@contextmanager
def written_aside(out: Path) -> Iterator[tuple[Path, Path]]:
    """Folders for the plan and for scratch files, beside ``out``; the plan takes its place if nothing is raised.

    Raises:
        FolderOccupiedError: If nothing can be written beside ``out``.
    """
    out = out.absolute()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise FolderOccupiedError(f"cannot write beside {out}: {error.strerror}") from error
    try:
        made, work = scratch / "plan", scratch / "work"
        made.mkdir()
        work.mkdir()
        yield made, work
        if out.exists():
            out.rename(scratch / "replaced")
        made.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
