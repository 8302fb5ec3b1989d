"""Real architectures: split, served back, left alone when up to date."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import split_tool
from split_tool.__main__ import main
from split_tool.plan import SplitPlan
from split_tool.together import SHORTEST_BLOCK_MS
from split_tool.zoo import model_path


@pytest.mark.parametrize("graph", ["user", "optimised"])
def test_squeezenet_in_four_blocks_equals_plain_onnxruntime(tmp_path: Path, graph: str) -> None:
    plan = split_tool.split(model_path("squeezenet"), tmp_path / "plan", blocks=4, graph=graph, budget_s=0.3)
    assert [spec.name for spec in plan.inputs] == ["data_0"]
    assert len(plan.blocks) == 4
    assert plan.proof.verdict == "bit-identical"
    assert max(block.time_ms for block in plan.blocks) < 0.6 * plan.isolated_ms
    image = np.random.default_rng(5).random((1, 3, 224, 224), dtype=np.float32)
    (expected,) = ort.InferenceSession(model_path("squeezenet"), providers=["CPUExecutionProvider"]).run(
        None, {"data_0": image}
    )
    (got,) = split_tool.run_chain(plan, tmp_path / "plan", {"data_0": image})
    np.testing.assert_array_equal(got, expected)


def test_operators_sliced_inside_give_what_the_whole_model_gives(tmp_path: Path) -> None:
    whole = split_tool.split(model_path("squeezenet"), tmp_path / "whole", blocks=1, budget_s=0.1)
    plan = split_tool.split(
        model_path("squeezenet"),
        tmp_path / "plan",
        max_block_ms=0.08 * whole.isolated_ms,
        graph="optimised",
        budget_s=0.1,
    )
    assert plan.sliced
    assert plan.proof.verdict == "bit-identical"


def test_the_zoo_makes_a_plan_once_and_then_says_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "--out", str(tmp_path), "--only", "squeezenet"]) == 0
    assert "up to date" not in capsys.readouterr().out
    first = SplitPlan.load(tmp_path / "squeezenet")
    assert main(["zoo", "--out", str(tmp_path), "--only", "squeezenet"]) == 0
    assert "(up to date)" in capsys.readouterr().out
    assert SplitPlan.load(tmp_path / "squeezenet") == first
    assert os.listdir(tmp_path) == ["squeezenet"]


def test_an_unknown_zoo_model_is_refused_with_the_list_of_those_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["zoo", "--out", str(tmp_path), "--only", "alexnet"]) == 1
    assert "bvlc_alexnet" in capsys.readouterr().err


def test_a_plan_is_drawn(tmp_path: Path) -> None:
    split_tool.split(model_path("squeezenet"), tmp_path / "plan", blocks=3, budget_s=0.1)
    assert main(["plot", str(tmp_path / "plan"), "--out", str(tmp_path / "plan.png")]) == 0
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_models_that_share_a_device_get_blocks_as_short_as_the_shortest_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short, long = tmp_path / "short.onnx", tmp_path / "long.onnx"
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy")
    graph = onnx.helper.make_graph([node], "short", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), short)
    shutil.copy(model_path("squeezenet"), long)
    command = ["together", str(long), str(short), "--out", str(tmp_path / "models")]
    assert main(command) == 0
    plans = {name: SplitPlan.load(tmp_path / "models" / name) for name in ("short", "long")}
    assert {plan.request.max_block_ms for plan in plans.values()} == {SHORTEST_BLOCK_MS}
    assert len(plans["short"].blocks) == 1 < len(plans["long"].blocks)
    capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().out.count("(up to date)") == 2
    assert {name: SplitPlan.load(tmp_path / "models" / name) for name in plans} == plans


def test_two_models_of_one_name_are_refused_before_anything_is_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(tmp_path / folder / "model.onnx") for folder in "ab"]
    assert main(["together", *paths, "--out", str(tmp_path / "models")]) == 1
    assert "same name" in capsys.readouterr().err
    assert not (tmp_path / "models").exists()
