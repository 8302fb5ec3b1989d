"""Groups of blocks as the configuration states them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from deployments.runtime.errors import LayoutRefusedError
from serve_app.config import load_config
from serve_app.errors import ConfigError
from serve_app.model_application import model_application
from serve_app.sections import ModelConfig
from split_tool.plan import SplitPlan
from tests.unit.runtime.test_block_groups import plan
from tests.unit.serve_app.test_config import changed, write

TIMES_MS = (1.0, 1.0, 4.0, 2.0, 2.0)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """``small`` and ``large`` with the same plan of five blocks, and ``whole`` that is not split."""
    model = plan(("x", "a"), ("a", "b"), ("b", "c"), ("c", "d"), ("d", "p"), inputs="x", outputs="p")
    blocks = (
        msgspec.structs.replace(block, time_ms=time_ms) for block, time_ms in zip(model.blocks, TIMES_MS, strict=True)
    )
    model = msgspec.structs.replace(model, blocks=tuple(blocks))
    for name in ("small", "large", "whole/1"):
        (tmp_path / "models" / name).mkdir(parents=True)
    for name in ("small", "large"):
        model.save(tmp_path / "models" / name)
    (tmp_path / "models" / "whole" / "1" / "model.onnx").write_bytes(b"")
    return tmp_path / "models"


def chained(repository: Path, groups: Any = None, **args: Any) -> ModelConfig:
    config = {"model": "small", "repository": str(repository), "layout": "chained", "chained": {"groups": groups}}
    return ModelConfig.model_validate(config | args)


def ranges(config: ModelConfig) -> list[tuple[int, int]]:
    return [(group.first_block, group.end_block) for group in config.to_settings().groups]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (None, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]),
        (1, [(0, 5)]),
        (2, [(0, 3), (3, 5)]),
        (3, [(0, 2), (2, 3), (3, 5)]),
        ([{"blocks": 1}, {}], [(0, 1), (1, 5)]),
        ([{"blocks": 2}, {"blocks": 3}], [(0, 2), (2, 5)]),
    ],
)
def test_a_number_makes_groups_of_even_time_and_a_list_those_that_it_states(
    repository: Path, groups: Any, expected: list[tuple[int, int]]
) -> None:
    assert ranges(chained(repository, groups)) == expected


def test_groups_of_even_time_are_not_cut_where_much_crosses(repository: Path) -> None:
    model = SplitPlan.load(repository / "small")
    cuts = [msgspec.structs.replace(cut, crossing_bytes=1_000) for cut in model.cuts]
    cuts[2] = msgspec.structs.replace(cuts[2], crossing_bytes=1_000_000)
    msgspec.structs.replace(model, cuts=tuple(cuts)).save(repository / "small")
    assert ranges(chained(repository, 2)) == [(0, 2), (2, 5)]


def test_a_fused_model_has_no_groups(repository: Path) -> None:
    assert chained(repository, 3, layout="fused").to_settings().groups == ()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (6, "6 groups are asked for, the plan of 'm' has 5 blocks"),
        ([{"blocks": 2}], "end before blocks 2, its plan has 5 blocks"),
        ([{"blocks": 5}, {}], "its plan has 5 blocks"),
        ([{"blocks": 9}], "end before blocks 9, its plan has 5 blocks"),
        ([{}, {"blocks": 1}], "group 0 of 'm' does not say how many blocks: only the last may"),
        (
            [{"blocks": 1, "device": {"index": 2}}, {}],
            r"first group .* on another device \(cpu-2\) than the model \(cpu-0",
        ),
    ],
)
def test_groups_that_the_plan_does_not_have_are_refused(repository: Path, groups: Any, message: str) -> None:
    with pytest.raises(LayoutRefusedError, match=message):
        chained(repository, groups).to_settings()


def test_no_group_is_no_number_of_groups(repository: Path) -> None:
    for groups in (0, [], [{"blocks": 0}]):
        with pytest.raises(ValidationError):
            chained(repository, groups)


def test_a_model_that_is_not_split_cannot_be_chained(repository: Path) -> None:
    with pytest.raises(LayoutRefusedError, match="model 'whole' has no split plan"):
        chained(repository, model="whole").to_settings()


def test_each_group_is_a_deployment_on_its_device(repository: Path) -> None:
    config = chained(repository, [{"blocks": 2}, {"blocks": 1, "device": {"index": 1}}, {}])
    settings = config.to_settings()
    assert [group.device.device for group in settings.groups] == ["cpu-0", "cpu-1", "cpu-0"]
    application: Any = model_application(config, is_declared=True)
    first = application._bound_deployment
    assert first.name == "SplitModel"
    assert [each._bound_deployment.name for each in first.init_args[2:]] == ["Blocks-2-2", "Blocks-3-4"]


def test_a_chained_model_has_no_replicas_on_several_devices(repository: Path) -> None:
    changes = [("1.args.layout", "chained"), ("1.args.devices", [{"index": 0}, {"index": 1}])]
    with pytest.raises(ConfigError, match=r"state the devices in chained\.groups"):
        load_config(write(repository, changed(*changes)))


def test_devices_of_groups_are_checked_and_get_the_mode_of_the_command_line(repository: Path) -> None:
    groups = [{"blocks": 1}, {"device": {"kind": "cpu", "index": 1, "cores": [0]}}]
    changes = [("1.args.layout", "chained"), ("1.args.chained", {"groups": groups})]
    config = load_config(write(repository, changed(*changes)), mode="fifo")
    assert [device.mode for device in config.models[0].all_devices] == ["fifo", "fifo"]
    assert config.models[0].all_devices[1].cores == [0]
    other = ("2.args.device", {"kind": "cpu", "index": 1, "cores": [1]})
    with pytest.raises(ConfigError, match=r"device cpu-1: model 'small' and model 'large' disagree .*cores"):
        load_config(write(repository, changed(*changes, other)))


def test_a_layout_that_the_plan_refuses_is_an_error_of_the_file(repository: Path) -> None:
    changes = [("1.args.layout", "chained"), ("1.args.chained", {"groups": 9})]
    with pytest.raises(ConfigError, match="9 groups are asked for"):
        load_config(write(repository, changed(*changes)))
