"""What ``benchmarks.routes`` compares, and how it reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.routes.__main__ import HAND_ON, ROUTER, THIN, Cell, make_config, report
from benchmarks.routes.apps import device_names
from serve_app.config import load_config
from serve_app.sections import ModelConfig


def test_all_ways_serve_the_same_model_on_the_same_two_devices(tmp_path: Path) -> None:
    config = load_config(make_config(tmp_path))
    entries = {entry["name"]: entry for entry in config.raw["applications"]}
    stated = [ModelConfig.model_validate(entries[name]["args"]) for name in ("first", "thin", "routed")]
    assert stated[0] == stated[1] == stated[2]
    assert device_names(stated[0]) == ["cpu-0", "cpu-1"]
    assert device_names(ModelConfig.model_validate(entries["busy"]["args"])) == ["cpu-0"]


def test_ratios_are_the_median_of_the_rounds_with_smallest_and_largest() -> None:
    rounds = [
        {HAND_ON: np.full(9, 0.002), THIN: np.full(9, factor * 0.002), ROUTER: np.full(9, 0.001)}
        for factor in (2.0, 5.0, 3.0)
    ]
    answer = report({Cell("64 B", 8, True): rounds})
    assert answer["ratio_p50"] == answer["ratio_p99"]
    assert answer["ratio_p50"]["64 B x8, one busy"] == {
        THIN: {"ratio": 3.0, "min": 2.0, "max": 5.0},
        ROUTER: {"ratio": 0.5, "min": 0.5, "max": 0.5},
    }
    assert answer["times"]["64 B x8, one busy"][HAND_ON] == {"p50_ms": 2.0, "p99_ms": 2.0, "count": 27}
