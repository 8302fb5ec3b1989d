"""Child processes as servers."""

from __future__ import annotations

import sys

import pytest

from benchmarks.load.errors import ServerStartError
from benchmarks.load.server import running_command

SERVES = "import time; print('loading'); print('ready: http://x', flush=True); time.sleep(60)"
ENDS = "print(\"unknown key 'modee'\"); raise SystemExit(2)"
IGNORES_SIGINT = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); " + SERVES


@pytest.mark.parametrize("program", [SERVES, IGNORES_SIGINT], ids=["obedient", "stubborn"])
def test_a_server_is_ready_inside_and_ended_after(program: str) -> None:
    with running_command([sys.executable, "-c", program], start_timeout_s=20, stop_timeout_s=0.2):
        pass


def test_a_server_that_ends_is_an_error_with_its_last_words() -> None:
    command = [sys.executable, "-c", ENDS]
    with (
        pytest.raises(ServerStartError, match="unknown key 'modee'"),
        running_command(command, start_timeout_s=20, stop_timeout_s=1),
    ):
        pass


def test_a_server_that_is_never_ready_is_an_error() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with (
        pytest.raises(ServerStartError, match="not ready within"),
        running_command(command, start_timeout_s=0.2, stop_timeout_s=1),
    ):
        pass
