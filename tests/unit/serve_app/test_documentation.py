"""The configuration reference names every key."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from serve_app.sections import (
    DeviceConfig,
    GatewayConfig,
    HttpConfig,
    LiveConfig,
    ModelConfig,
    QosConfig,
    SplitConfig,
)
from tests.models import ROOT


@pytest.mark.parametrize(
    "section", [ModelConfig, DeviceConfig, QosConfig, HttpConfig, SplitConfig, LiveConfig, GatewayConfig]
)
def test_every_key_stands_in_the_reference(section: type[BaseModel]) -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    missing = [name for name in section.model_fields if f"\n| `{name}` |" not in text]
    assert not missing
