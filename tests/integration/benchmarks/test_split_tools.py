"""Split tools compared on models with stored outputs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
import pytest
from onnx import helper

from benchmarks.split_cases import read_cases
from benchmarks.split_rivals import RIVALS
from benchmarks.split_tools import cut_case, main, own_outcomes, rival_outcomes, summary
from split_tool.sessions import user_target

HARD = Path(__file__).parents[2] / "data" / "hard"


def test_this_tool_and_the_extractor_of_onnx_are_counted_cut_by_cut(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--models", str(HARD), "--only", "05,10", "--tools", "split_tool,onnx", "--json"])
    user, optimised, rival = json.loads(capsys.readouterr().out)
    for row in (user, optimised):
        assert row["tool"] == "split_tool"
        assert row["models"] == row["right_everywhere"] == 2
        assert row["verdicts"] == {"right": row["ways"], "wrong": 0, "unusable": 0, "refused": 0, "crashed": 0}
    assert rival["tool"] == "onnx"
    assert rival["ways"] == user["ways"]
    assert rival["right_everywhere"] == 1
    assert list(rival["reasons"]) == ["05_ir3_initializer_is_input"]


def test_parts_that_give_other_values_are_wrong_and_parts_that_do_not_load_unusable(tmp_path: Path) -> None:
    (case,) = read_cases(HARD, ["10_duplicate_output_name"])
    assert case.verdict([case.source.path]) == ("right", "")
    changed = onnx.load(case.source.path)
    last = next(node for node in changed.graph.node if case.source.outputs[0].name in node.output)
    last.output[0] = "before"
    changed.graph.node.append(helper.make_node("Neg", ["before"], [case.source.outputs[0].name]))
    onnx.save(changed, tmp_path / "changed.onnx")
    assert case.verdict([tmp_path / "changed.onnx"])[0] == "wrong"
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    assert case.verdict([tmp_path / "broken.onnx"])[0] == "unusable"


def test_a_tool_that_dies_without_an_answer_has_crashed(tmp_path: Path) -> None:
    (case,) = read_cases(HARD, ["10_duplicate_output_name"])
    cut = cut_case(case, user_target(case.source))
    outcomes = rival_outcomes(RIVALS["onnx"], "/bin/false", cut, tmp_path)
    assert set(outcomes) == {("crashed", "no answer")}
    assert len(outcomes) == len(cut.positions) == len(own_outcomes(cut, tmp_path))


def test_the_summary_counts_models_and_cuts() -> None:
    outcomes = {"a": [("right", ""), ("right", "")], "b": [("right", ""), ("wrong", "x"), ("refused", "y")]}
    row = summary("tool", "1.0", "cut", outcomes)
    assert (row.models, row.right_everywhere, row.silently_wrong, row.ways) == (2, 1, 1, 5)
    assert row.verdicts == {"right": 3, "wrong": 1, "unusable": 0, "refused": 1, "crashed": 0}
    assert row.reasons == {"b": "wrong: x"}


def test_a_tool_that_no_environment_has_is_left_out_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    if "ssp4onnx" in sys.modules:
        pytest.skip("ssp4onnx is installed here")
    main(["--models", str(HARD), "--only", "none-of-them"])
    assert "pip install" in capsys.readouterr().err
