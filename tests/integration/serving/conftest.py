"""One local Ray cluster with Serve for all tests of this folder; each test deploys what it needs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import serve

from serve_app.app import model
from serve_app.config import ModelConfig
from serve_app.server import free_port
from tests.models import split_light_models

Deploy = Callable[..., Any]


@pytest.fixture(scope="session")
def repository() -> Path:
    return split_light_models("squeezenet", "shufflenet", "vgg19")


@pytest.fixture(scope="package")
def cluster() -> Iterator[int]:
    """A running Serve; gives its HTTP port."""
    port = free_port()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    yield port
    serve.shutdown()
    ray.shutdown()


@pytest.fixture
def deploy(cluster: int, repository: Path) -> Iterator[Deploy]:
    """Deploys models by name with settings of their device; gives handles; deletes them after the test."""
    names: list[str] = []

    def deploy_model(name: str, **device: Any) -> Any:
        config = ModelConfig(model=name, repository=str(repository), device=device)
        names.append(name)
        return serve.run(model(config), name=name, route_prefix=f"/v2/models/{name}")

    yield deploy_model
    for name in names:
        with contextlib.suppress(Exception):
            serve.delete(name)
