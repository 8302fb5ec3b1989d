"""What ``benchmarks.layouts --pipeline`` compares, and how it reports."""

from __future__ import annotations

from pathlib import Path

from benchmarks.layouts.pipeline import BOTH, CHAINED, ONE, make_config, report
from serve_app.config import load_config


def test_a_pipeline_has_half_of_the_blocks_on_each_of_the_devices_that_the_replicas_have(tmp_path: Path) -> None:
    models = {model.model: model for model in load_config(make_config(tmp_path)).models}
    devices = {way: [each.to_settings().device for each in model.all_devices] for way, model in models.items()}
    assert devices == {ONE: ["cpu-0"], BOTH: ["cpu-0", "cpu-1"], CHAINED: ["cpu-0", "cpu-1"]}
    groups = models[CHAINED].to_settings().groups
    assert [(group.first_block, group.end_block, group.device.device) for group in groups] == [
        (0, 2, "cpu-0"),
        (2, 4, "cpu-1"),
    ]


def test_ratios_are_taken_within_a_round() -> None:
    rounds = [{ONE: 10.0, BOTH: 15.0, CHAINED: 12.0}, {ONE: 20.0, BOTH: 40.0, CHAINED: 20.0}]
    answer = report({"1 KB": rounds})
    assert answer["1 KB"][ONE] == {
        "per_s": {"median": 15.0, "min": 10.0, "max": 20.0},
        "ratio": {"median": 1.0, "min": 1.0, "max": 1.0},
    }
    assert answer["1 KB"][BOTH]["ratio"] == {"median": 1.75, "min": 1.5, "max": 2.0}
    assert answer["1 KB"][CHAINED]["ratio"] == {"median": 1.1, "min": 1.0, "max": 1.2}
