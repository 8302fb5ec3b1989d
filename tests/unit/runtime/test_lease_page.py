"""The page that replica and allocator share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.runtime.lease_page import LeasePage, Progress


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@given(lease=st.integers(1, 2**46), done=st.integers(0, 2**16 - 1), now_ns=st.integers(0, 2**62))
def test_what_one_side_writes_the_other_reads(folder: Path, lease: int, done: int, now_ns: int) -> None:
    mine = LeasePage(folder / "p.page", create=True)
    theirs = LeasePage(folder / "p.page", create=False)
    mine.begin(lease, done, now_ns)
    assert theirs.progress == Progress(lease=lease, blocks_done=done, boundary_s=now_ns / 1e9)
    theirs.revoke(lease)
    assert mine.is_revoked(lease)
    assert not mine.is_revoked(lease + 1)
    theirs.keep()
    assert not mine.is_revoked(lease)
    mine.end()
    assert theirs.progress is None
    theirs.close()
    mine.close(unlink=True)


def test_a_revocation_of_an_earlier_lease_means_nothing(tmp_path: Path) -> None:
    page = LeasePage(tmp_path / "p.page", create=True)
    page.revoke(4)
    assert not page.is_revoked(5)
    page.close()


def test_the_page_is_private_to_the_user(tmp_path: Path) -> None:
    page = LeasePage(tmp_path / "p.page", create=True)
    assert page.path.stat().st_mode & 0o077 == 0
    page.close()


def test_a_page_shows_whether_its_process_lives_even_as_a_zombie(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from deployments.runtime.lease_page import LeasePage;"
        "page = LeasePage(pathlib.Path(sys.argv[1]), create=True); print('ready', flush=True); sys.stdin.read()"
    )
    path = tmp_path / "p.page"
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == b"ready\n"
    page = LeasePage(path, create=False)
    assert page.pid == child.pid
    assert page.is_replica_alive()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still listed
    assert not page.is_replica_alive()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    page.close()
