"""What counts as a refusal of a public tool, and what as a crash."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.split_rivals import Rival, answer_ways


def answers_of(cut: Callable[[str, Any, Path], list[str]], folder: Path, num_ways: int = 1) -> list[dict[str, Any]]:
    """What is said of a tool that behaves so."""
    answers: list[dict[str, Any]] = []
    request = {"model": "m.onnx", "folder": str(folder), "ways": [[]] * num_ways}
    answer_ways(Rival("tool", "cut", "tool", cut), request, answers.append)
    return answers


def test_the_files_of_each_way_are_named_and_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    answers = answers_of(lambda model, way, folder: [str(folder / "0.onnx")], tmp_path, num_ways=2)
    assert answers == [{"way": index, "files": [str(tmp_path / str(index) / "0.onnx")]} for index in range(2)]
    assert (tmp_path / "1").is_dir()


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("the subgraph is\nnot bounded"), "refused", "ValueError: the subgraph is not bounded"),
        (AssertionError("output 'a' not found"), "refused", "AssertionError: output 'a' not found"),
        (AssertionError(), "crashed", "AssertionError: "),
        (KeyError("a"), "crashed", "KeyError: 'a'"),
        (AttributeError("no attribute 'shape'"), "crashed", "AttributeError: no attribute 'shape'"),
    ],
)
def test_an_error_that_tells_its_user_something_is_a_refusal(
    tmp_path: Path, error: Exception, kind: str, text: str
) -> None:
    def cut(model: str, way: Any, folder: Path) -> list[str]:
        raise error

    assert answers_of(cut, tmp_path) == [{"way": 0, "kind": kind, "error": text}]


def test_a_tool_that_prints_its_reason_and_exits_has_refused(tmp_path: Path) -> None:
    def cut(model: str, way: Any, folder: Path) -> list[str]:
        print("no input given")
        sys.exit(1)

    assert answers_of(cut, tmp_path) == [{"way": 0, "kind": "refused", "error": "no input given"}]
