"""Every hard model, cut at every position of both graphs, gives the stored outputs; or is refused in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from split_tool.__main__ import main
from split_tool.inputs import load_samples
from split_tool.processor import processor_name_and_features
from split_tool.source import read_source
from split_tool.verify import Comparison, coarsest_float, is_quantised
from tests.integration.split_tool.cut_everywhere import outputs_at_every_cut, target_of

HARD = Path(__file__).parents[2] / "data" / "hard"
CASES = {case["id"]: case for case in json.loads((HARD / "cases.json").read_text(encoding="utf-8"))}
REFUSED = {
    "21_unknown_custom_op": "MagicOp",
    "24_duplicate_node_names": "same node name",
    "59_cycle_invalid": "cycle through 'a'",
    "60_truncated_file_invalid": "truncated",
    "61_external_path_escape_invalid": "leaves the model's folder",
    "62_ir_version_too_new": "max supported IR version",
}

HAS_VNNI = any("vnni" in feature or feature.startswith("amx") for feature in processor_name_and_features()[1])
STORED_ELSEWHERE = {"36_qdq_u8s8_saturation"} if HAS_VNNI else set()
"""What is stored saturates at 16 bits, as processors without VNNI do; others are compared with the uncut model."""


def data_sets(name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Inputs by name and outputs by place, where both are stored; one empty set for a model without inputs."""
    sets = []
    for which in ("", "2"):
        outputs = HARD / f"{name}.outputs{which}.npz"
        if outputs.exists():
            inputs = HARD / f"{name}.inputs{which}.npz"
            sets.append((load_samples(inputs) if inputs.exists() else {}, load_samples(outputs)))
    return sets or [({}, {})]


@pytest.mark.parametrize("kind", ["user", "optimised"])
@pytest.mark.parametrize("name", sorted(set(CASES) - set(REFUSED)))
def test_a_hard_model_gives_the_stored_outputs_wherever_it_is_cut(name: str, kind: str, tmp_path: Path) -> None:
    is_random = CASES[name]["random"]
    is_stored = not is_random and name not in STORED_ELSEWHERE
    source = read_source(HARD / f"{name}.onnx")
    sets = data_sets(name)
    limit = 6 if len(source.model.graph.node) > 1000 else 100
    results = outputs_at_every_cut(
        source, target_of(source, kind, tmp_path), [feeds for feeds, _ in sets], tmp_path, seeded=is_random, limit=limit
    )
    uncut = results[()]
    for made in results.values():
        for (_, stored), outputs, whole in zip(sets, made, uncut, strict=True):
            expected = [stored.get(str(i), whole[i]) if is_stored else whole[i] for i in range(len(outputs))]
            Comparison(
                outputs=source.outputs,
                is_quantised=is_quantised(source.model.graph.node),
                coarsest=coarsest_float(source.model),
            ).add(expected, outputs)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_an_invalid_model_is_refused_in_one_line_and_nothing_is_written(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["split", str(HARD / f"{name}.onnx"), "--out", str(tmp_path / "plan")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("split_tool: ")] == lines[-1:]
    assert REFUSED[name] in lines[-1]
    assert os.listdir(tmp_path) == []
