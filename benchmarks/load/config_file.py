"""The configuration files of servers that benchmarks start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from serve_app.config import GATEWAY_IMPORT_PATH, MODEL_IMPORT_PATH, MODEL_ROUTE


def write_config(
    path: Path,
    models: Mapping[str, Mapping[str, Any]],
    *,
    repository: Path,
    gateway: Mapping[str, Any] | None = None,
    others: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write a configuration file with a gateway and the models; gives its path.

    Args:
        path: The file.
        models: Name of each -> its ``args``, but for name and repository.
        repository: Where their plans are.
        gateway: The gateway's ``args``; None: without gRPC.
        others: More applications, as they are to stand there.
    """
    applications: list[Mapping[str, Any]] = [
        {
            "name": "gateway",
            "route_prefix": "/",
            "import_path": GATEWAY_IMPORT_PATH,
            "args": {"grpc_port": None} if gateway is None else dict(gateway),
        }
    ]
    applications += [
        {
            "name": name,
            "route_prefix": MODEL_ROUTE + name,
            "import_path": MODEL_IMPORT_PATH,
            "args": {"model": name, "repository": str(repository)} | dict(stated),
        }
        for name, stated in models.items()
    ]
    path.write_text(yaml.safe_dump({"applications": [*applications, *others]}, sort_keys=False))
    return path
