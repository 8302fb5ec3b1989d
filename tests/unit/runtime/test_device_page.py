"""The turn lock and the free word of a device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from deployments.runtime.device_page import DevicePage

HOLD_THE_TURN = (
    "import sys, pathlib; from deployments.runtime.device_page import DevicePage;"
    "page = DevicePage(pathlib.Path(sys.argv[1])); print(page.try_take_turn(), flush=True); sys.stdin.read()"
)


def test_of_all_processes_one_has_the_turn_until_it_ends_it_or_dies(tmp_path: Path) -> None:
    mine = DevicePage(tmp_path)
    assert mine.try_take_turn()
    mine.end_turn()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_TURN, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert not mine.try_take_turn()
        other.kill()
        other.wait()
        mine.take_turn()
    theirs = DevicePage(tmp_path)
    assert not theirs.try_take_turn()
    mine.close()
    assert theirs.try_take_turn()
    theirs.close()


def test_everybody_sees_whether_the_device_is_free(tmp_path: Path) -> None:
    mine, theirs = DevicePage(tmp_path), DevicePage(tmp_path)
    assert not theirs.is_free
    mine.is_free = True
    assert theirs.is_free
    mine.is_free = False
    assert not theirs.is_free
    mine.close()
    theirs.close()
