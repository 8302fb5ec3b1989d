"""Splitting tiny models: what is written, what is refused, what the command line says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from onnx.external_data_helper import set_external_data

import split_tool
from split_tool.__main__ import main
from split_tool.chain import Chain, feeds_to_ort
from split_tool.errors import FolderOccupiedError, ModelRefusedError, OptionError, PlanMismatchError
from split_tool.measure import measure
from split_tool.plan import SplitPlan
from split_tool.sessions import Device
from tests.integration.split_tool.tiny_models import model, perceptron, value, weight

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.onnx"
    made = perceptron()
    helper.set_model_props(made, {"characters": "abc"})
    onnx.save(made, file)
    return file


def split(file: Path, out: Path, **options: object) -> SplitPlan:
    return split_tool.split(file, out, budget_s=0.01, **options)


@pytest.mark.parametrize("graph", ["user", "optimised"])
def test_the_chain_gives_what_the_whole_model_gives(model_file: Path, tmp_path: Path, graph: str) -> None:
    plan = split(model_file, tmp_path / "plan", blocks=3, graph=graph)
    assert len(plan.blocks) == 3
    assert plan.graph == graph
    (got,) = split_tool.run_chain(plan, tmp_path / "plan", {"x": X})
    (expected,) = ort.InferenceSession(model_file, providers=["CPUExecutionProvider"]).run(None, {"x": X})
    np.testing.assert_array_equal(got, expected)


def test_the_plan_says_what_crosses_each_cut(model_file: Path, tmp_path: Path) -> None:
    plan = split(model_file, tmp_path / "plan", blocks=2, graph="user")
    names = {spec.name for spec in plan.cuts[0].tensors}
    assert names <= {f"{kind}{layer}" for kind in "mr" for layer in range(4)}
    assert plan.cuts[0].crossing_bytes == 32 * len(names)
    assert all(spec.dtype == "float32" and spec.shape == (1, 8) for spec in plan.cuts[0].tensors)


def test_metadata_opset_and_ir_version_survive_in_every_block(model_file: Path, tmp_path: Path) -> None:
    plan = split(model_file, tmp_path / "plan", blocks=2)
    for block in plan.blocks:
        written = onnx.load(tmp_path / "plan" / block.file)
        assert {(prop.key, prop.value) for prop in written.metadata_props} == {("characters", "abc")}
        assert written.ir_version == 10
        assert ("", 18) in {(entry.domain, entry.version) for entry in written.opset_import}


def test_a_plan_of_the_same_model_machine_and_request_is_left_alone(model_file: Path, tmp_path: Path) -> None:
    first = split(model_file, tmp_path / "plan", blocks=2)
    changed_ns = (tmp_path / "plan" / "plan.json").stat().st_mtime_ns
    assert split(model_file, tmp_path / "plan", blocks=2) == first
    assert (tmp_path / "plan" / "plan.json").stat().st_mtime_ns == changed_ns


def test_another_request_replaces_a_plan_only_when_forced(model_file: Path, tmp_path: Path) -> None:
    split(model_file, tmp_path / "plan", blocks=2)
    with pytest.raises(FolderOccupiedError, match="--force"):
        split(model_file, tmp_path / "plan", blocks=3)
    assert len(split(model_file, tmp_path / "plan", blocks=3, force=True).blocks) == 3
    assert sorted(os.listdir(tmp_path)) == ["plan", "tiny.onnx"]


def test_a_plan_of_another_machine_is_made_anew_without_being_forced(model_file: Path, tmp_path: Path) -> None:
    plan = split(model_file, tmp_path / "plan", blocks=2)
    elsewhere = msgspec.structs.replace(plan.measured_on, processor="another")
    msgspec.structs.replace(plan, measured_on=elsewhere).save(tmp_path / "plan")
    assert split(model_file, tmp_path / "plan", blocks=2).measured_on.processor == plan.measured_on.processor


def test_a_plan_is_taken_from_the_cache_for_the_same_content_only(model_file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = split(model_file, tmp_path / "plan", blocks=2, cache=cache)
    assert split(model_file, tmp_path / "again", blocks=2, cache=cache) == first
    assert SplitPlan.load(tmp_path / "again") == first
    assert len(os.listdir(cache)) == 1
    assert len(split(model_file, tmp_path / "other", blocks=3, cache=cache).blocks) == 3
    assert len(os.listdir(cache)) == 2


def test_a_folder_that_holds_something_else_is_never_touched(model_file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(FolderOccupiedError, match="no split plan"):
        split(model_file, tmp_path / "mine", force=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "all of it"


def test_more_blocks_than_the_graph_has_places_are_reported(tmp_path: Path) -> None:
    onnx.save(model([helper.make_node("Relu", ["x"], ["y"])], [value("x")], [value("y")]), tmp_path / "one.onnx")
    plan = split(tmp_path / "one.onnx", tmp_path / "plan", blocks=4)
    assert len(plan.blocks) == 1
    assert plan.notes[0].startswith("4 blocks were asked for, 1 made")


def one_of_its_kind(kind: str) -> onnx.ModelProto:
    """A model without any operator, with one, with constants only, or with nothing that takes time."""
    given = helper.make_node("Constant", [], ["k"], value=weight("", 3, 8))
    nodes = {
        "no operator": [],
        "one operator": [helper.make_node("Relu", ["x"], ["y"])],
        "constants only": [given, helper.make_node("Relu", ["k"], ["y"])],
        "nothing but copies": [helper.make_node("Identity", ["x"], ["z"]), helper.make_node("Identity", ["z"], ["y"])],
    }[kind]
    return model(nodes, [value("x", (3, 8))], [value("x" if kind == "no operator" else "y", (3, 8))])


@pytest.mark.parametrize("wanted", [{}, {"blocks": 1}, {"blocks": 3}, {"max_block_ms": 1e-6}, {"max_block_ms": 1e6}])
@pytest.mark.parametrize("kind", ["no operator", "one operator", "constants only", "nothing but copies"])
def test_a_model_with_nothing_to_cut_is_split_all_the_same(kind: str, wanted: dict[str, float], tmp_path: Path) -> None:
    onnx.save(one_of_its_kind(kind), tmp_path / "m.onnx")
    plan = split(tmp_path / "m.onnx", tmp_path / "plan", **wanted)
    whole = ort.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    (got,) = split_tool.run_chain(plan, tmp_path / "plan", {"x": X})
    np.testing.assert_array_equal(got, whole.run(None, {"x": X})[0])


def test_a_clock_that_sees_no_time_pass_is_no_reason_to_fail() -> None:
    def frozen() -> float:
        return 1.0

    chain = Chain([perceptron()], Device(), is_optimised=False)
    chain.clock = frozen
    feeds = {"x": ort.OrtValue.ortvalue_from_numpy(X)}
    measured = measure(lambda: None, chain, feeds, ["y"], budget_s=0.0)
    assert measured.isolated_ms > 0
    assert measured.overhead == 0.0
    assert measured.spread == 0.0


def test_an_unreachable_bound_gives_the_best_there_is_and_names_the_bound(model_file: Path, tmp_path: Path) -> None:
    plan = split(model_file, tmp_path / "plan", max_block_ms=1e-6)
    assert "cannot be reached" in plan.notes[0]


def test_an_input_that_is_an_output_is_forwarded(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
    onnx.save(model(nodes, [value("x")], [value("x"), value("y"), value("y")]), tmp_path / "m.onnx")
    plan = split(tmp_path / "m.onnx", tmp_path / "plan", blocks=2, graph="user")
    forwarded, first, second = split_tool.run_chain(plan, tmp_path / "plan", {"x": X})
    np.testing.assert_array_equal(forwarded, X)
    np.testing.assert_array_equal(first, second)


def test_initializers_listed_as_inputs_are_no_inputs_of_the_plan(tmp_path: Path) -> None:
    made = perceptron(2)
    made.ir_version = 3
    made.graph.input.extend(value(f"w{layer}", (8, 8)) for layer in range(2))
    onnx.save(made, tmp_path / "old.onnx")
    plan = split(tmp_path / "old.onnx", tmp_path / "plan", blocks=2)
    assert [spec.name for spec in plan.inputs] == ["x"]


def test_weights_outside_the_models_folder_are_refused_before_reading(tmp_path: Path) -> None:
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x")], [value("y")], [weight("w", 8)])
    set_external_data(made.graph.initializer[0], "../secret.bin")
    made.graph.initializer[0].ClearField("raw_data")
    made.graph.initializer[0].data_location = TensorProto.EXTERNAL
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "m.onnx").write_bytes(made.SerializeToString())
    (tmp_path / "secret.bin").write_bytes(b"0" * 32)
    with pytest.raises(ModelRefusedError, match="leaves the model's folder"):
        split(tmp_path / "in" / "m.onnx", tmp_path / "plan")
    assert not (tmp_path / "plan").exists()


def test_nothing_is_left_behind_when_a_model_is_refused(tmp_path: Path) -> None:
    onnx.save(
        model([helper.make_node("Magic", ["x"], ["y"], domain="com.acme")], [value("x")], [value("y")]),
        tmp_path / "magic.onnx",
    )
    with pytest.raises(ModelRefusedError, match="cannot load"):
        split(tmp_path / "magic.onnx", tmp_path / "plan")
    assert os.listdir(tmp_path) == ["magic.onnx"]


@pytest.mark.parametrize(
    "options",
    [{"blocks": 0}, {"max_block_ms": -1.0}, {"blocks": 2, "max_block_ms": 3.0}, {"name": "a/b"}, {"num_threads": 0}],
)
def test_senseless_options_are_refused(model_file: Path, tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        split(model_file, tmp_path / "plan", **options)


def test_shapes_that_contradict_the_model_are_refused(model_file: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="declares nx8"):
        split(model_file, tmp_path / "plan", input_shapes={"x": (2, 9)})


def test_the_command_line_splits_shows_verifies_and_plots(
    model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "plan")
    assert main(["split", str(model_file), "--out", out, "--blocks", "2", "--json", "--input", "x=4x8"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "tiny"
    assert main(["show", out]) == 0
    assert "2 blocks" in capsys.readouterr().out
    assert main(["verify", out, "--samples", "2"]) == 0
    assert "bit-identical on 2 random inputs" in capsys.readouterr().out


def test_every_command_prints_json(model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split(model_file, tmp_path / "two", blocks=2)
    split(model_file, tmp_path / "three", blocks=3)
    folder = str(tmp_path / "two")
    assert main(["show", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["blocks"]
    assert main(["verify", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "bit-identical"
    assert main(["compare", folder, str(tmp_path / "three"), "--json"]) == 0
    assert [plan["blocks"] for plan in json.loads(capsys.readouterr().out)] == [2, 3]


def test_plans_are_compared_side_by_side(model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split(model_file, tmp_path / "two", blocks=2)
    split(model_file, tmp_path / "three", blocks=3, name="other")
    assert main(["compare", str(tmp_path / "two"), str(tmp_path / "three")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-2:] for line in lines if line.startswith("blocks ")] == [["2", "3"]]
    assert not any("different" in line for line in lines)


def test_the_plan_says_what_other_numbers_of_blocks_would_give(model_file: Path, tmp_path: Path) -> None:
    plan = split(model_file, tmp_path / "plan", blocks=3)
    assert [point.blocks for point in plan.trade_off] == list(range(1, len(plan.trade_off) + 1))
    assert len(plan.trade_off) >= 4
    assert plan.trade_off[2].longest_ms == max(block.time_ms for block in plan.blocks)


def test_a_chain_that_runs_again_gives_new_outputs_and_leaves_old_ones_alone(model_file: Path, tmp_path: Path) -> None:
    plan = split(model_file, tmp_path / "plan", blocks=3)
    chain = Chain([tmp_path / "plan" / block.file for block in plan.blocks], Device(), is_optimised=True)
    whole = ort.InferenceSession(model_file, providers=["CPUExecutionProvider"])
    kept = []
    for factor in (1.0, 2.0, -1.0, 3.0):
        feeds = {"x": (X * factor).astype(np.float32)}
        kept.append((chain.run(feeds_to_ort(feeds, plan.inputs), ["y"])["y"], whole.run(None, feeds)[0]))
    longer = {"x": np.concatenate([X, X])}
    kept.append((chain.run(feeds_to_ort(longer, plan.inputs), ["y"])["y"], whole.run(None, longer)[0]))
    for got, expected in kept:
        np.testing.assert_array_equal(got.numpy(), expected)


def test_the_command_line_refuses_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"not a model at all")
    assert main(["split", str(tmp_path / "broken.onnx"), "--out", str(tmp_path / "plan")]) == 1
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1].startswith("split_tool: ")
    assert "truncated" in captured.err
    assert not (tmp_path / "plan").exists()


def test_a_changed_block_file_is_noticed(model_file: Path, tmp_path: Path) -> None:
    plan = split(model_file, tmp_path / "plan", blocks=2)
    (tmp_path / "plan" / plan.blocks[0].file).write_bytes(b"")
    with pytest.raises(PlanMismatchError):
        plan.check_files(tmp_path / "plan")
    assert main(["verify", str(tmp_path / "plan")]) == 1
