"""The model repository: which versions are there, and that no path leads out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve_app.errors import ModelMissingError, RepositoryMissingError, RepositoryPathError, ServeAppError
from serve_app.repository import check_plan_paths, find_model, model_names


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    for file in ("flat/plan.json", "many/1/model.onnx", "many/10/plan.json", "many/9/plan.json", ".cache/x/plan.json"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("{}")
    (folder / "many" / "config.yaml").write_text("version: 9")
    (folder / "a file").write_text("")
    return folder


def test_a_plan_in_the_models_own_folder_is_version_1(repository: Path) -> None:
    stored = find_model(repository, "flat")
    assert (stored.version, stored.folder, stored.is_split) == (1, repository / "flat", True)


def test_the_highest_version_is_found_unless_another_is_asked_for(repository: Path) -> None:
    stored = find_model(repository, "many")
    assert (stored.version, stored.is_split) == (10, True)
    stored = find_model(repository, "many", 1)
    assert (stored.version, stored.is_split) == (1, False)
    assert stored.config_path == repository / "many" / "config.yaml"


def test_folders_with_a_dot_and_files_are_no_models(repository: Path) -> None:
    assert model_names(repository) == ["flat", "many"]
    assert model_names(repository / "nowhere") == []


@pytest.mark.parametrize(
    ("model", "version", "error", "message"),
    [
        ("other", None, ModelMissingError, "no model 'other' in"),
        ("many", 3, ModelMissingError, "no version 3 in .*; there are 1, 9, 10"),
        ("../models/flat", None, RepositoryPathError, "no name of a model"),
        ("..", None, RepositoryPathError, "no name of a model"),
        ("/etc", None, RepositoryPathError, "no name of a model"),
        (".cache", None, RepositoryPathError, "no name of a model"),
        ("stats", None, RepositoryPathError, "not 'stats'"),
        ("", None, RepositoryPathError, "no name of a model"),
        ("flat\n", None, RepositoryPathError, "no name of a model"),
    ],
)
def test_what_is_not_there_or_no_name_is_refused(
    repository: Path, model: str, version: int | None, error: type[ServeAppError], message: str
) -> None:
    with pytest.raises(error, match=message):
        find_model(repository, model, version)


def test_a_missing_repository_is_told(tmp_path: Path) -> None:
    with pytest.raises(RepositoryMissingError, match="no model repository at"):
        find_model(tmp_path / "nowhere", "m")


@pytest.mark.parametrize(
    "link", ["model", "model/1", "model/1/model.onnx", "model/1/deep/weights", "model/config.yaml"]
)
def test_a_link_that_leaves_the_repository_is_refused_wherever_it_is(
    repository: Path, tmp_path: Path, link: str
) -> None:
    outside = tmp_path / "outside"
    for file in ("1/1/model.onnx", "1/model.onnx"):
        (outside / file).parent.mkdir(parents=True, exist_ok=True)
        (outside / file).write_text("")
    for file in ("model/1/model.onnx", "model/1/deep/other", "model/config.yaml"):
        if not f"{file}/".startswith(f"{link}/"):
            (repository / file).parent.mkdir(parents=True, exist_ok=True)
            (repository / file).write_text("")
    (repository / link).parent.mkdir(parents=True, exist_ok=True)
    (repository / link).symlink_to(outside / "1")
    with pytest.raises(RepositoryPathError, match="outside of the model repository"):
        find_model(repository, "model")


def test_a_link_inside_the_repository_is_followed(repository: Path) -> None:
    (repository / "again").symlink_to(repository / "many")
    assert find_model(repository, "again").version == 10


@pytest.mark.parametrize("name", ["../many/9/plan.json", "/etc/passwd", "blocks/../../x"])
def test_a_plan_that_names_files_outside_of_its_folder_is_refused(repository: Path, name: str) -> None:
    check_plan_paths(repository / "flat", ["blocks/block_0.onnx"])
    with pytest.raises(RepositoryPathError, match="leaves its folder"):
        check_plan_paths(repository / "flat", ["model.onnx", name])
