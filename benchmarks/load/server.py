"""A server as a child process: started for one run, ready before the run, gone after it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from benchmarks.load.errors import ServerStartError

READY_PREFIX = "ready:"


@contextlib.contextmanager
def running_server(
    config: Path, mode: str, *, start_timeout_s: float = 600, stop_timeout_s: float = 90
) -> Iterator[None]:
    """``python -m serve_app run CONFIG --mode MODE``, ready inside the context, ended after it.

    Raises:
        ServerStartError: If it ends, or is not ready in time; the message holds its last lines.
    """
    command = [sys.executable, "-m", "serve_app", "run", str(config), "--mode", mode]
    with running_command(command, start_timeout_s=start_timeout_s, stop_timeout_s=stop_timeout_s):
        yield


@contextlib.contextmanager
def running_command(
    command: Sequence[str],
    *,
    start_timeout_s: float,
    stop_timeout_s: float,
    environment: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """The same for any command that prints a line that starts with ``ready:`` and ends on SIGINT.

    What it has started and leaves behind is killed.

    Args:
        command: The program and its arguments.
        start_timeout_s: How long it may take to be ready.
        stop_timeout_s: How long it may take to end before it is asked harder.
        environment: Its whole environment; None: this process's.
    """
    # Its own session: Ctrl-C in the terminal reaches this process only, which then ends the server in order.
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env=environment,
    )
    last_lines: deque[str] = deque(maxlen=30)
    is_ready = threading.Event()
    is_over = threading.Event()

    def read_output() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            last_lines.append(line.rstrip())
            if line.startswith(READY_PREFIX):
                is_ready.set()
                is_over.set()
        is_over.set()

    reader = threading.Thread(target=read_output, name="server-output", daemon=True)
    reader.start()
    try:
        is_over.wait(start_timeout_s)
        if not is_ready.is_set():
            reason = "ended" if is_over.is_set() else f"was not ready within {start_timeout_s:g} s"
            raise ServerStartError(f"'{' '.join(command)}' {reason}. Its last lines:\n" + "\n".join(last_lines))
        yield
    finally:
        _stop(process, stop_timeout_s)
        # Children that outlive it may hold its output open; the thread is a daemon.
        reader.join(timeout=1)
        if not reader.is_alive() and process.stdout is not None:
            process.stdout.close()


def _stop(process: subprocess.Popen[str], timeout_s: float) -> None:
    """End the process and what it has started: ask, ask harder, force."""
    family = _family(process.pid)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout_s)
    _, left = psutil.wait_procs(family, timeout=2)
    for child in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(left, timeout=2)


def _family(pid: int) -> list[psutil.Process]:
    """All that the process has started, directly or not."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
