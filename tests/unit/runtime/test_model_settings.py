"""When turns try to have a request answered."""

from __future__ import annotations

import pytest

from deployments.runtime.model_settings import ModelSettings
from deployments.runtime.settings import DeviceSettings


def settings(**stated: float) -> ModelSettings:
    return ModelSettings(model="m", folder="f", device=DeviceSettings(), **stated)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stated", "wanted_s", "aim_s"),
    [
        ({"alpha": 3.0}, None, 6.0),
        ({"alpha": 3.0, "deadline_s": 5.0}, None, 5.0),
        ({"alpha": 3.0, "deadline_s": 5.0}, 1.0, 1.0),
        ({"alpha": 3.0, "margin": 0.25}, None, 4.5),
        ({"deadline_s": 5.0, "margin": 0.25}, None, 3.75),
        ({"margin": 0.25}, 1.0, 0.75),
        ({"alpha": 3.0, "margin_s": 0.5}, None, 5.5),
        ({"alpha": 3.0, "margin_s": 0.5, "margin": 0.25}, None, 4.0),
        ({"alpha": 3.0, "margin_s": 9.0}, None, 4.0),  # half of the 4 s that are left
        ({"margin_s": 0.5}, 1.0, 1.0),  # late in any case
    ],
)
def test_a_request_s_own_deadline_comes_before_the_model_s_and_each_keeps_the_margin(
    stated: dict[str, float], wanted_s: float | None, aim_s: float
) -> None:
    assert settings(**stated).aim_s(wanted_s, isolated_s=2.0) == pytest.approx(aim_s)
