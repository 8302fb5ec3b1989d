"""The random tests of the scheduling core once more, with many more examples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "unit" / "scheduling"


@pytest.mark.parametrize(
    "file", ["test_properties.py", "test_stateful.py", "test_explanation.py", "test_on_time_queue.py"]
)
def test_what_holds_for_a_few_random_examples_holds_for_many(file: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--hypothesis-profile=at_length", str(FOLDER / file)]
    finished = subprocess.run(command, cwd=FOLDER.parents[2], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout
