"""Unit tests run without Ray."""

from __future__ import annotations

from typing import NoReturn

import pytest
import ray
from hypothesis import settings

settings.register_profile("unit", max_examples=10, stateful_step_count=30, deadline=None)
settings.register_profile("at_length", max_examples=100, stateful_step_count=60, deadline=None)
settings.load_profile("unit")  # --hypothesis-profile comes after it


@pytest.fixture(autouse=True)
def _ray_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> NoReturn:
        raise AssertionError("a unit test may not start Ray: move it to tests/integration")

    monkeypatch.setattr(ray, "init", refuse)
