"""The model repository on disk: which models and versions are there, and that nothing outside of it is read.

``<repository>/<model>/<version>/`` holds a split plan (``plan.json`` and its files) or ``model.onnx`` alone;
``<repository>/<model>/plan.json`` is version 1. Folders whose name begins with a dot are no models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from serve_app.errors import ModelMissingError, RepositoryMissingError, RepositoryPathError
from split_tool.plan import PLAN_FILE, WHOLE_MODEL_FILE

CONFIG_FILE = "config.yaml"
NAME_PATTERN = r"^[A-Za-z0-9_-]{1,200}$"
_NAME = re.compile(NAME_PATTERN)
_TAKEN = ("stats",)
"""``/v2/models/stats`` is the statistics of all models."""

_VERSION = re.compile(r"[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """One version of a model on disk.

    Attributes:
        model: Its name.
        version: The version.
        folder: Where ``plan.json`` or ``model.onnx`` lies; absolute.
        is_split: There is a split plan.
        config_path: ``config.yaml`` of the version, else of the model; None: neither has one.
    """

    model: str
    version: int
    folder: Path
    is_split: bool
    config_path: Path | None


def find_model(repository: Path, model: str, version: int | None = None) -> StoredModel:
    """A model on disk; no file of it is read.

    Args:
        repository: The folder of all models.
        model: Name of the model, from anywhere: it is checked.
        version: Which version; None: the highest.

    Raises:
        RepositoryPathError: If the name is none, or a link of the model leaves the repository.
        RepositoryMissingError: If there is no repository.
        ModelMissingError: If the model or the version is not there, or holds nothing that can be served.
    """
    if not _NAME.fullmatch(model) or model in _TAKEN:
        raise RepositoryPathError(
            f"{model[:100]!r} is no name of a model: letters, digits, '_' and '-' are allowed, but not "
            f"{', '.join(map(repr, _TAKEN))}, and no paths"
        )
    repository = repository.absolute()
    if not repository.is_dir():
        raise RepositoryMissingError(
            f"there is no model repository at {repository}: 'make models' (python -m split_tool zoo --out "
            f"{repository}) makes one with example models"
        )
    folders = _version_folders(repository, model)
    if not folders:
        raise ModelMissingError(
            f"there is no model {model!r} in {repository}: put it there as {model}/1/{WHOLE_MODEL_FILE}, or split with "
            f"'python -m split_tool split MODEL.onnx --out {repository / model}'"
        )
    chosen = max(folders) if version is None else version
    if chosen not in folders:
        there = ", ".join(map(str, sorted(folders)))
        raise ModelMissingError(f"model {model!r} has no version {chosen} in {repository}; there are {there}")
    folder = folders[chosen]
    _check_links(repository, folder)
    is_split = (folder / PLAN_FILE).is_file()
    if not is_split and not (folder / WHOLE_MODEL_FILE).is_file():
        raise ModelMissingError(
            f"version {chosen} of model {model!r} has neither {PLAN_FILE} nor {WHOLE_MODEL_FILE} in {folder}"
        )
    beside = [path for path in (folder / CONFIG_FILE, repository / model / CONFIG_FILE) if path.is_file()]
    return StoredModel(
        model=model,
        version=chosen,
        folder=folder,
        is_split=is_split,
        config_path=beside[0] if beside else None,
    )


def model_names(repository: Path) -> list[str]:
    """Names of all models in the repository, sorted; empty if there is none."""
    if not repository.is_dir():
        return []
    return sorted(path.name for path in repository.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())


def check_plan_paths(folder: Path, names: Iterable[str]) -> None:
    """Pass if the files that a plan names lie in its folder.

    Raises:
        RepositoryPathError: It names the first that does not.
    """
    inside = folder.resolve()
    for name in names:
        if not (inside / name).resolve().is_relative_to(inside):
            raise RepositoryPathError(
                f"the plan in {folder} names {name!r}, which leaves its folder: split the model again"
            )


def _version_folders(repository: Path, model: str) -> dict[int, Path]:
    root = repository / model
    _check_inside(repository, root)
    if not root.is_dir():
        return {}
    folders = {int(path.name): path for path in root.iterdir() if _VERSION.fullmatch(path.name) and path.is_dir()}
    if (root / PLAN_FILE).is_file():
        folders.setdefault(1, root)
    return folders


def _check_links(repository: Path, folder: Path) -> None:
    """Every link below the folder, the folder's own included, ends inside the repository."""
    for path in (folder, *folder.rglob("*"), *folder.parent.glob(CONFIG_FILE)):
        if path == folder or path.is_symlink():
            _check_inside(repository, path)


def _check_inside(repository: Path, path: Path) -> None:
    if not path.resolve().is_relative_to(repository.resolve()):
        raise RepositoryPathError(
            f"{path} leads to {path.resolve()}, outside of the model repository {repository}: put the files into the "
            "repository; nothing outside of it is read"
        )
