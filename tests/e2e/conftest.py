"""A server started the way a user starts it, on a free port."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from serve_app.server import free_port
from tests.models import ROOT, split_light_models

MODELS = ("squeezenet", "shufflenet", "vgg19")
START_LIMIT_S = 240


@pytest.fixture(scope="package")
def config_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's own configuration file with three of its models."""
    repository = split_light_models(*MODELS)
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    config["applications"] = [entry for entry in config["applications"] if entry["name"] in ("gateway", *MODELS)]
    for entry in config["applications"]:
        if "args" in entry:
            entry["args"]["repository"] = str(repository)
    path = tmp_path_factory.mktemp("server") / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="package")
def url(config_path: Path) -> Iterator[str]:
    """Where ``python -m serve_app run`` answers."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "serve_app", "run", str(config_path), "--port", str(port)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(f"ready: http://127.0.0.1:{port} (squeezenet, shufflenet, vgg19"), line
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 0
        process.stdout.close()
