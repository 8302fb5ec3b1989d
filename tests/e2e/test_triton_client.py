"""An unmodified tritonclient, in its own environment because its protobuf cannot live with Ray's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import ROOT, random_input, whole_model_outputs


def triton_python() -> Path:
    python = Path(os.environ.get("TRITON_PYTHON", ROOT / ".venv-triton" / "bin" / "python"))
    assert python.exists(), f"there is no tritonclient environment at {python}: 'make test' makes it"
    return python


@pytest.mark.parametrize("model", ["squeezenet", "shufflenet"])
def test_tritonclient_gets_the_bits_that_plain_onnxruntime_gives(url: str, model: str, tmp_path: Path) -> None:
    inputs = random_input(model, seed=5)
    ((input_name, array),) = inputs.items()
    ((output_name, expected),) = whole_model_outputs(model, inputs).items()
    np.save(tmp_path / "input.npy", array)
    script = Path(__file__).parent / "triton_script.py"
    done = subprocess.run(
        [triton_python(), script, url.removeprefix("http://"), model, tmp_path / "input.npy", tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    for form in ("binary", "json"):
        np.testing.assert_array_equal(np.load(tmp_path / f"{form}.npy"), expected, strict=True)
    assert told["live"]
    assert told["ready"]
    assert told["model_ready"]
    assert not told["unknown_model_ready"]
    assert told["server"]["name"] == "dlir-serve"
    assert told["model"]["inputs"] == [{"name": input_name, "datatype": "FP32", "shape": list(array.shape)}]
    assert [output["name"] for output in told["model"]["outputs"]] == [output_name]
    assert {entry["name"]: entry["state"] for entry in told["index"]}[model] == "READY"
    (tensor_config,) = told["config"]["input"]
    assert (tensor_config["name"], tensor_config["data_type"]) == (input_name, "TYPE_FP32")
    (statistics,) = told["statistics"]
    assert (statistics["name"], statistics["inference_count"] >= 2) == (model, True)
    assert [each["name"] for each in told["all_statistics"]] == ["shufflenet", "squeezenet", "vgg19"]
    assert told["refusal"]["status"] == "400"
    assert input_name in told["refusal"]["message"]
