"""Built OpenCL programs, kept from one start to the next.

A driver compiles kernels when a program is built or first run, 0.6 s for each on PoCL. Its binaries are valid for the
same source, options, platform, device and driver, which make the key.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import pyopencl as cl

from opencl_runner.device import Device

MAX_BYTES = 1 << 30
_OPTIONS = ""
_SUFFIX = ".clbin"
_CHECKSUM_BYTES = 32


class ProgramCache:
    """A folder of program binaries that stays below a size: the longest unused go first."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        """Use ``folder``, which need not be there."""
        self._folder = folder
        self._max_bytes = max_bytes

    def take(self, source: str, device: Device) -> Any:
        """The program built from what is stored; None if nothing is, or the driver does not take it any more."""
        path = self._path(source, device)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        checksum, binary = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
        try:
            if hashlib.sha256(binary).digest() != checksum:  # a driver may crash on a damaged binary
                raise ValueError(path)
            program = cl.Program(device.context, [device.handle], [binary]).build()
        except (ValueError, cl.Error):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return program

    def put(self, source: str, program: Any, device: Device) -> None:
        """Store a built program, whole or not at all; it may be there already."""
        path = self._path(source, device)
        if path.exists():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        (binary,) = program.get_info(cl.program_info.BINARIES)
        write_atomically(path, hashlib.sha256(binary).digest() + binary)
        stay_below(self._folder, self._max_bytes, f"*{_SUFFIX}")

    def _path(self, source: str, device: Device) -> Path:
        key = hashlib.sha256("\0".join((source, _OPTIONS, device.name)).encode()).hexdigest()
        return self._folder / f"{key}{_SUFFIX}"


def build(source: str, device: Device, programs: ProgramCache | None) -> Any:
    """The program of a source, from the cache if it is there; pyopencl's own cache stays out of it."""
    program = programs.take(source, device) if programs is not None else None
    return program or cl.Program(device.context, source).build(_OPTIONS, cache_dir=False)


def write_atomically(path: Path, content: bytes) -> None:
    """Nobody ever sees half of the file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(temporary).replace(path)


def stay_below(folder: Path, max_bytes: int, pattern: str) -> None:
    """Remove the entries that were unused for longest until the rest is small enough."""
    entries = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
    total = sum(path.stat().st_size for path in entries)
    for path in entries:
        if total <= max_bytes:
            break
        total -= path.stat().st_size
        path.unlink(missing_ok=True)
