"""A server started the way a user starts it, on a free port."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from serve_app.server import free_port
from tests.models import ROOT, split_light_models

MODELS = ("squeezenet", "shufflenet", "vgg19")
LOADABLE = "loadable"
"""A model in the gateway's repository that nobody has loaded."""

EXPLAINED = (503, 504)
"""Statuses of 500 and more that are no faults of the server's own: too much to do, or a time-out."""


@pytest.fixture(scope="package")
def config_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's own configuration file with three of its models, and a fourth to be loaded on request."""
    repository = split_light_models(*MODELS)
    folder = tmp_path_factory.mktemp("server")
    shutil.copytree(repository / "squeezenet", folder / "models" / LOADABLE / "1")
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    config["applications"] = [entry for entry in config["applications"] if entry["name"] in ("gateway", *MODELS)]
    for entry in config["applications"]:
        if entry["name"] in MODELS:
            entry["args"]["repository"] = str(repository)
        else:
            entry["args"]["repository"] = str(folder / "models")
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where the server answers: a URL, and HOST:PORT."""

    url: str
    grpc: str


@pytest.fixture(scope="package")
def server(config_path: Path) -> Iterator[Addresses]:
    """A running ``python -m serve_app run``."""
    port, grpc_port = free_port(), free_port()
    command = [sys.executable, "-m", "serve_app", "run", str(config_path)]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--grpc-port", str(grpc_port)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(f"ready: http://127.0.0.1:{port} (squeezenet, shufflenet, vgg19"), line
        assert process.stdout.readline() == f"gRPC: 127.0.0.1:{grpc_port}\n"
        yield Addresses(url=f"http://127.0.0.1:{port}", grpc=f"127.0.0.1:{grpc_port}")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 0
        process.stdout.close()


@pytest.fixture(scope="package")
def url(server: Addresses) -> str:
    """Where HTTP answers."""
    return server.url
