"""Unit tests run without Ray."""

from __future__ import annotations

from typing import NoReturn

import pytest
import ray


@pytest.fixture(autouse=True)
def _ray_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> NoReturn:
        raise AssertionError("a unit test may not start Ray: move it to tests/integration")

    monkeypatch.setattr(ray, "init", refuse)
