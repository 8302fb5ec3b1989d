"""Compiled blocks kept by what they were made from, so that nothing is compiled twice."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from opencl_runner.plan import KERNELS_FILE, LAUNCHES_FILE, WEIGHTS_FILE
from split_tool.folders import written_aside
from split_tool.plan import sha256_of_file
from split_tool.tvm_opencl.jobs import Job, Made
from split_tool.tvm_opencl.targets import TARGETS

PIPELINE_VERSION = 3
"""To be raised with every change of what is compiled from the same block."""

MAX_BYTES = 4 << 30
_ENTRY_FILE = "entry.json"
_FILES = (LAUNCHES_FILE, KERNELS_FILE, WEIGHTS_FILE)


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What lies beside the files of an entry: their hashes, and the compiler's answer."""

    sha256: dict[str, str]
    made: Made


class CompiledStore:
    """A folder with one folder per compiled block; it stays below a size, the longest unused go first."""

    def __init__(self, folder: Path, compiler: str, *, max_bytes: int = MAX_BYTES) -> None:
        """Use ``folder`` for what ``compiler`` (its name and version) makes."""
        self._folder = folder
        self._compiler = compiler
        self._max_bytes = max_bytes

    def key(self, job: Job, sha256: Sequence[str]) -> str:
        """64 hexadecimal digits, the same only where the same would be made of files with these hashes."""
        content = {
            "pipeline": PIPELINE_VERSION,
            "compiler": self._compiler,
            "block": sha256,
            "target": repr(TARGETS[job.target]),
            "shapes": list(job.shapes.items()),
            "outputs": job.outputs,
            "algorithms": job.algorithms,
            "follows_rule": job.follows_rule,
            "pads_channels": job.pads_channels,
        }
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()

    def take(self, key: str, to: Path) -> Made | None:
        """Copy an entry to ``to``; None if there is none or it is damaged, in which case it goes."""
        folder = self._folder / key
        if not folder.is_dir():
            return None
        try:
            entry = msgspec.json.decode((folder / _ENTRY_FILE).read_bytes(), type=_Entry)
            if any(sha256_of_file(folder / name) != entry.sha256[name] for name in _FILES):
                raise ValueError(key)
            to.mkdir(parents=True, exist_ok=True)
            for name in _FILES:
                shutil.copyfile(folder / name, to / name)
        except (OSError, KeyError, ValueError):  # msgspec's errors are ValueErrors
            shutil.rmtree(folder, ignore_errors=True)
            return None
        with contextlib.suppress(OSError):
            os.utime(folder)
        return msgspec.structs.replace(entry.made, compile_s=0.0)

    def put(self, key: str, made: Made, folder: Path) -> None:
        """Keep what was compiled into ``folder``, whole or not at all."""
        with written_aside(self._folder / key) as (aside, _):
            for name in _FILES:
                shutil.copyfile(folder / name, aside / name)
            entry = _Entry(sha256={name: sha256_of_file(aside / name) for name in _FILES}, made=made)
            (aside / _ENTRY_FILE).write_bytes(msgspec.json.encode(entry))
        self._stay_below()

    def _stay_below(self) -> None:
        entries = [file.parent for file in self._folder.glob(f"*/{_ENTRY_FILE}")]
        entries.sort(key=lambda path: path.stat().st_mtime)
        sizes = {path: sum(file.stat().st_size for file in path.iterdir()) for path in entries}
        for path in entries[:-1]:
            if sum(sizes.values()) <= self._max_bytes:
                break
            shutil.rmtree(path, ignore_errors=True)
            del sizes[path]
