"""Models that lie in the repository as ``model.onnx`` alone: served whole at once, split beside that.

What is made of them lies in a cache folder, by the hash of the model: ``whole`` is a plan of one block, ``blocks`` the
plan of the split tool. The work is done in actors (``splitter.py``): a replica does not load the split tool.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError

from deployments.runtime.allocator_actor import NAMESPACE
from deployments.runtime.model_settings import ModelSettings
from deployments.runtime.settings import DeviceSettings
from serve_app.sections import ModelConfig
from split_tool.plan import WHOLE_MODEL_FILE

_ASK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsplit:
    """A model to be split.

    Attributes:
        model: Its name.
        source: Its file.
        sha256: Hash of the file.
        cache: Folder for what is made of it.
        device: Where it is served.
        max_block_ms: Wanted longest block; None: the split tool chooses.
    """

    model: str
    source: Path
    sha256: str
    cache: Path
    device: DeviceSettings
    max_block_ms: float | None

    @property
    def folder(self) -> Path:
        """Its own folder in the cache."""
        return self.cache / self.model / self.sha256[:16]


def unsplit_model(settings: ModelSettings, config: ModelConfig, sha256: str) -> Unsplit:
    """The model of these settings, whose folder has ``model.onnx``, with that hash, and no plan."""
    cache = config.split.cache
    return Unsplit(
        model=settings.model,
        source=Path(settings.folder) / WHOLE_MODEL_FILE,
        sha256=sha256,
        cache=Path(config.repository).absolute() / ".cache" if cache is None else Path(cache).absolute(),
        device=settings.device,
        max_block_ms=config.split.max_block_ms,
    )


def find_plan(unsplit: Unsplit) -> Path:
    """The folder of a plan that can be served now: the model in blocks if it has been split before, else whole.

    Raises:
        ray.exceptions.RayTaskError: If the model cannot be read; the cause says why.
    """
    return Path(ray.get(_splitter(unsplit).find_plan.remote()))


def split_beside(unsplit: Unsplit, report: Callable[[str], None]) -> Path:
    """Split the model, unless that is done, and return the folder of the plan; blocks for as long as that takes.

    All replicas of the model share the process that does it; it ends with the replica that began.

    Raises:
        ray.exceptions.RayTaskError: If it cannot be split; the cause says why.
    """
    while True:
        splitter = _splitter(unsplit)
        folder = splitter.split.remote()
        try:
            while not ray.wait([folder], timeout=_ASK_S)[0]:
                report(ray.get(splitter.progress.remote()))
            plan = Path(ray.get(folder))
        except RayActorError:
            time.sleep(_ASK_S)  # the replica that began is gone, and the process with it
            continue
        return plan


def _splitter(unsplit: Unsplit) -> Any:  # Ray's types do not know what ``get_if_exists`` gives
    from serve_app.splitter import Splitter  # here: it loads onnx, which the replica of a split model does not need

    actor: Any = ray.remote(Splitter)
    name = f"split-{unsplit.model}-{unsplit.folder.name}"
    options = {"name": name, "namespace": NAMESPACE, "get_if_exists": True, "num_cpus": 0, "max_concurrency": 8}
    return actor.options(**options).remote(unsplit)
