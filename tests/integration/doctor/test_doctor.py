"""The doctor, on a configuration in which everything is wrong that can be."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import onnxruntime as ort
import pytest
import yaml

from deployments.runtime.settings import DeviceSettings
from serve_app.__main__ import main
from serve_app.doctor.probe import reason_not_usable
from serve_app.server import free_port

Findings = dict[tuple[str, str], dict[str, str]]


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def write_config(folder: Path, device: dict[str, object], port: int, **more: object) -> Path:
    """Two models: one that is not split, and one whose plan cannot be read."""
    for model in ("whole", "broken"):
        (folder / model / "1").mkdir(parents=True)
    (folder / "whole" / "1" / "model.onnx").write_bytes(bytes(5 << 20))
    (folder / "broken" / "1" / "plan.json").write_text('{"schema_version": 99}')
    entries = [
        {
            "name": model,
            "route_prefix": f"/v2/models/{model}",
            "import_path": "serve_app.app:model",
            "args": {"model": model, "repository": str(folder), "device": device} | more,
        }
        for model in ("whole", "broken")
    ]
    gateway = {
        "name": "gateway",
        "route_prefix": "/",
        "import_path": "serve_app.app:gateway",
        "args": {"grpc_port": None, "repository": str(folder)},
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"http_options": {"port": port}, "applications": [*entries, gateway]}))
    return path


def examine(config: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, Findings]:
    code = main(["doctor", str(config), "--json"])
    findings = json.loads(capsys.readouterr().out)
    return code, {(finding["topic"], finding["subject"]): finding for finding in findings}


def test_all_that_is_broken_is_found_with_its_fix_and_the_exit_code_is_1(
    tmp_path: Path, taken_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    device = {"kind": "coreml", "memory_mb": 1, "cores": [4095]}
    code, findings = examine(write_config(tmp_path, device, taken_port), capsys)
    assert code == 1
    broken = {key: finding for key, finding in findings.items() if finding["state"] == "broken"}
    assert set(broken) == {
        ("providers", "coreml"),
        ("ports", f"127.0.0.1:{taken_port}"),
        ("devices", "coreml-0"),
        ("models", "broken"),
        ("memory", "coreml-0"),
    }
    assert all(finding["fix"] for finding in broken.values())
    assert f"process {os.getpid()}" in broken["ports", f"127.0.0.1:{taken_port}"]["text"]
    assert broken["devices", "coreml-0"]["text"] == "cores [4095] are not there"
    assert broken["models", "broken"]["fix"] == "split the model again"
    assert "models take 5 MiB of 1 (whole 5, broken 0)" in broken["memory", "coreml-0"]["text"]
    assert findings["models", "whole"]["state"] == "note"


def test_a_model_takes_memory_of_each_of_its_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = {"devices": [{"index": 1}, {"index": 2, "memory_mb": 9}], "replicas_per_device": 2}
    _, findings = examine(write_config(tmp_path, {}, free_port(), **more), capsys)
    memory = {subject: finding for (topic, subject), finding in findings.items() if topic == "memory"}
    assert {name: finding["state"] for name, finding in memory.items()} == {"cpu-1": "ok", "cpu-2": "broken"}
    assert "models take 10 MiB of 9 (whole 10, broken 0)" in memory["cpu-2"]["text"]


def test_a_configuration_that_cannot_be_read_is_a_finding_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("applications: []")
    code, findings = examine(config, capsys)
    assert code == 1
    assert "there is nothing to serve" in findings["config", str(config)]["text"]
    assert findings["providers", "cpu"]["state"] == "ok"


def test_a_provider_that_is_listed_and_does_not_work_is_told_with_its_reason() -> None:
    assert reason_not_usable(DeviceSettings()) is None
    if "TensorrtExecutionProvider" not in ort.get_available_providers():
        pytest.skip("needs onnxruntime-gpu")
    reason = reason_not_usable(DeviceSettings(kind="tensorrt"))
    if reason is None:
        pytest.skip("TensorRT works here")
    assert "\n" not in reason
    assert "lib" in reason or "TensorRT" in reason
