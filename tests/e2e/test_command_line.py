"""``python -m serve_app``: wrong configurations end with one message and a code, before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from serve_app.server import free_port
from tests.e2e.conftest import Addresses


def serve_app(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "serve_app", *arguments], capture_output=True, text=True, timeout=60, cwd=cwd
    )


def test_a_wrong_configuration_ends_with_the_key_and_code_1(config_path: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(config_path.read_text())
    config["applications"][1]["args"]["device"]["mode"] = "fastest"
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    done = serve_app("run", str(path))
    assert done.returncode == 1
    assert "unknown mode 'fastest': allowed are slo" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_told_with_who_uses_it(url: str, config_path: Path) -> None:
    port = url.rsplit(":", 1)[1]
    done = serve_app("run", str(config_path), "--port", port)
    assert done.returncode == 1
    assert f"port {port} of 127.0.0.1 cannot be used (Address already in use; process " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_grpc_port_in_use_is_told_too(server: Addresses, config_path: Path) -> None:
    port = server.grpc.rsplit(":", 1)[1]
    done = serve_app("run", str(config_path), "--port", str(free_port()), "--grpc-port", port)
    assert done.returncode == 1
    assert f"port {port} of 127.0.0.1 cannot be used (Address already in use; process " in done.stderr
    assert "set another grpc_port in the gateway's args" in done.stderr


def test_check_says_what_would_be_served(config_path: Path) -> None:
    done = serve_app("check", str(config_path))
    assert done.returncode == 0
    assert "serves 3 models" in done.stdout
    assert "gRPC: 127.0.0.1:8001" in done.stdout
    assert "squeezenet: device cpu-0, mode slo" in done.stdout
