"""Unit tests run without Ray."""

from __future__ import annotations

from typing import NoReturn

import pytest
import ray
from hypothesis import settings

settings.register_profile("unit", max_examples=25, deadline=None)
settings.load_profile("unit")


@pytest.fixture(autouse=True)
def _ray_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> NoReturn:
        raise AssertionError("a unit test may not start Ray: move it to tests/integration")

    monkeypatch.setattr(ray, "init", refuse)
