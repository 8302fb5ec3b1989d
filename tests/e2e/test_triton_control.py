"""An unmodified tritonclient loads and unloads a model that no entry of the configuration names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import LOADABLE, Addresses
from tests.e2e.test_triton_client import triton_python
from tests.models import random_input, whole_model_outputs


@pytest.mark.parametrize(
    ("kind", "not_found", "refused"),
    [("http", "404", "400"), ("grpc", "StatusCode.NOT_FOUND", "StatusCode.INVALID_ARGUMENT")],
)
def test_tritonclient_loads_uses_and_unloads_a_model(
    server: Addresses, tmp_path: Path, kind: str, not_found: str, refused: str
) -> None:
    inputs = random_input("squeezenet", seed=3)
    ((_, array),) = inputs.items()
    ((_, expected),) = whole_model_outputs("squeezenet", inputs).items()
    np.save(tmp_path / "input.npy", array)
    address = server.url.removeprefix("http://") if kind == "http" else server.grpc
    script = Path(__file__).parent / "triton_control_script.py"
    command = [triton_python(), script, kind, address, LOADABLE, tmp_path / "input.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["before"]["state"], told["before"]["reason"]) == ("UNAVAILABLE", "unloaded")
    assert (told["loaded"]["state"], told["loaded"]["version"]) == ("READY", "1")
    assert (told["ready_before"], told["ready"], told["ready_after"]) == (False, True, False)
    assert told["metadata"]["versions"] == ["1"]
    assert told["sums"] == [pytest.approx(float(expected.sum()), rel=1e-5)] * 3
    assert told["after"]["state"] == "UNAVAILABLE"
    assert told["infer_after"]["status"] == not_found
    assert told["unknown"]["status"] == not_found
    assert "there is no model 'nope'" in told["unknown"]["message"]
    assert told["files"]["status"] == refused
