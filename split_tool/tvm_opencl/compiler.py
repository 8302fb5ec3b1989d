"""Compiled blocks for jobs: from the store where they are, from TVM where they are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from split_tool.tvm_opencl.jobs import Job, Made
from split_tool.tvm_opencl.store import CompiledStore
from split_tool.tvm_opencl.supervise import compile_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """The store, and the time that TVM may take for one block, in seconds."""

    store: CompiledStore
    limit_s: float

    def run(self, jobs: Sequence[Job], sha256: Sequence[tuple[str, ...]]) -> list[Made]:
        """What came of each job; its files are in the job's folder.

        Args:
            jobs: The jobs.
            sha256: For each job the hashes of the files that it reads.
        """
        keys = [self.store.key(job, hashes) for job, hashes in zip(jobs, sha256, strict=True)]
        found = [self.store.take(key, Path(job.folder)) for job, key in zip(jobs, keys, strict=True)]
        missing = [number for number, made in enumerate(found) if made is None]
        for number, made in zip(missing, compile_all([jobs[n] for n in missing], limit_s=self.limit_s), strict=True):
            found[number] = made
            if made.error is None:
                self.store.put(keys[number], made, Path(jobs[number].folder))
        return [made for made in found if made is not None]
