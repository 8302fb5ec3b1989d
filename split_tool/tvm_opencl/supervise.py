"""Runs the compiler process: with a time limit, and again with the rest of the jobs where a job has killed it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

import msgspec

from split_tool.tvm_opencl.errors import CompilerMissingError
from split_tool.tvm_opencl.jobs import Job, Made

PINNED = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1"}
"""Other versions of the second crash in the layout conversion (0.1.15), or do not import."""

_WORKER = "split_tool.tvm_opencl.worker"


def compiler_version() -> str:
    """Names and versions of the compiler, for people and for the key of what it has made.

    Raises:
        CompilerMissingError: If a package is missing or of another version than the one that is known to work.
    """
    for package, version in PINNED.items():
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found = "none"
        if found != version:
            raise CompilerMissingError(
                f"{package} {version} is needed, found {found}: install it with pip install 'dlir-serve[tvm]'"
            )
    return ", ".join(f"{package} {version}" for package, version in PINNED.items())


def compile_all(jobs: Sequence[Job], *, limit_s: float) -> list[Made]:
    """What came of each job; a job that crashed the compiler or ran over the limit has an error that says so.

    Args:
        jobs: The jobs; each has a folder of its own.
        limit_s: Time that one job may take, in seconds.
    """
    results: list[Made] = []
    while len(results) < len(jobs):
        with tempfile.TemporaryFile() as messages, _start(messages) as worker:
            for job in jobs[len(results) :]:
                results.append(_ask(worker, job, limit_s, messages))
                if worker.poll() is not None:
                    break
            assert worker.stdin is not None
            worker.stdin.close()
    return results


def _start(messages: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", _WORKER]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages, bufsize=0)


def _ask(worker: subprocess.Popen[bytes], job: Job, limit_s: float, messages: IO[bytes]) -> Made:
    """The worker's answer; where there is none it has ended, and the answer says how."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        worker.stdin.write(msgspec.json.encode(job) + b"\n")
    if not select.select([worker.stdout], [], [], limit_s)[0]:
        worker.kill()
        worker.wait()
        return Made(error=f"the compiler was ended after {limit_s:.0f} s")
    if answer := worker.stdout.readline():
        return msgspec.json.decode(answer, type=Made)
    code = worker.wait()
    messages.seek(0)
    last = messages.read().decode(errors="replace").strip().rpartition("\n")[2]
    return Made(error=f"the compiler ended with code {code}: {last[:200]}")
