"""The configuration reference names every key."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from serve_app.config import DeviceConfig, GatewayConfig, HttpConfig, ModelConfig, QosConfig
from tests.models import ROOT


@pytest.mark.parametrize("section", [ModelConfig, DeviceConfig, QosConfig, HttpConfig, GatewayConfig])
def test_every_key_stands_in_the_reference(section: type[BaseModel]) -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    missing = [name for name in section.model_fields if f"\n| `{name}` |" not in text]
    assert not missing
