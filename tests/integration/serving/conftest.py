"""One local Ray cluster with Serve for all tests of this folder, and the models on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import serve

from serve_app.app import model
from serve_app.sections import ModelConfig
from serve_app.server import QUICK_SERVE, free_port
from tests.models import split_light_models

Deploy = Callable[..., Any]


@pytest.fixture(scope="session")
def repository() -> Path:
    return split_light_models("squeezenet", "shufflenet", "vgg19")


@pytest.fixture(scope="package")
def cluster() -> Iterator[int]:
    """A running Serve; gives its HTTP port."""
    port = free_port()
    os.environ.update(QUICK_SERVE)  # as serve_app does
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    yield port
    serve.shutdown()
    ray.shutdown()


@pytest.fixture(scope="package")
def deploy(cluster: int, repository: Path) -> Deploy:
    """Deploys a model on a device, by name and settings of the device; gives its handle.

    Models stay for the tests that follow. The application is called like the model on device 0, and
    ``<model>-<index>`` on others.
    """
    handles: dict[str, Any] = {}

    def deploy_model(name: str, **device: Any) -> Any:
        app = f"{name}-{device['index']}" if device.get("index") else name
        if app not in handles:
            config = ModelConfig(model=name, repository=str(repository), device=device)
            handles[app] = serve.run(model(config), name=app, route_prefix=f"/v2/models/{app}")
        return handles[app]

    return deploy_model
