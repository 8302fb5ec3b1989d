"""Tries a kind of device: ``python -m serve_app.doctor.probe '{"kind": "cuda"}'`` loads and runs a model of one node.

A process of its own, because a provider that fails may end its process, and because ONNX Runtime writes the reason to
the standard error output only.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper

from deployments.runtime.backends.strict_session import open_session
from deployments.runtime.errors import RuntimeServingError
from deployments.runtime.settings import DeviceSettings

_LIMIT_S = 60.0


def reason_not_usable(device: DeviceSettings) -> str | None:
    """Why ONNX Runtime cannot use the device, in one line; None if it can. Takes about a second."""
    settings = msgspec.json.encode(msgspec.structs.replace(device, cores=None)).decode()
    try:
        tried = subprocess.run(
            [sys.executable, "-m", __name__, settings], capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it did not answer within {_LIMIT_S:.0f} s"
    if tried.returncode == 0:
        return None
    library = re.search(r"with error: (.+)", tried.stderr)
    lines = tried.stderr.strip().splitlines() or [f"the process ended with code {tried.returncode}"]
    return (library.group(1) if library else lines[-1]).strip()


def _try_device(device: DeviceSettings) -> None:
    """Run one addition.

    Raises:
        RuntimeServingError: If that does not work on the device.
    """
    one = np.ones(1, np.float32)
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xyz"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], "probe", value[:2], value[2:])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        device = msgspec.structs.replace(device, cache=folder)
        (result,) = open_session(path, "probe", device, is_optimised=False).run(None, {"x": one, "y": one})
    assert result[0] == 2.0


if __name__ == "__main__":
    try:
        _try_device(msgspec.json.decode(sys.argv[1], type=DeviceSettings))
    except RuntimeServingError as error:
        sys.exit(str(error))
