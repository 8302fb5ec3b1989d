"""Which plans ONNX Runtime can serve on which kind of device."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from deployments.runtime.backends.onnx_sessions import check_plan
from deployments.runtime.errors import PlanNotForDeviceError
from deployments.runtime.settings import DeviceSettings
from split_tool.plan import SplitPlan
from tests.unit.protocol.test_metadata import PLAN

HERE = Path()


def plan(graph: Literal["optimised", "user"], features: tuple[str, ...] = ("none",)) -> SplitPlan:
    """A plan that was measured on a processor with these instruction sets."""
    measured_on = msgspec.structs.replace(
        PLAN.measured_on, provider="CPUExecutionProvider", processor_features=features
    )
    return msgspec.structs.replace(PLAN, model="m", graph=graph, measured_on=measured_on)


def test_blocks_of_the_users_graph_fit_every_kind_of_device() -> None:
    for device in (DeviceSettings(), DeviceSettings(kind="cuda"), DeviceSettings(kind="openvino")):
        check_plan(plan("user"), HERE, device)


def test_blocks_of_an_optimised_graph_fit_one_provider_and_one_kind_of_processor() -> None:
    with pytest.raises(
        PlanNotForDeviceError, match=r"for CPUExecutionProvider, device cuda-0 .* '--graph user --force'"
    ):
        check_plan(plan("optimised"), HERE, DeviceSettings(kind="cuda"))
    with pytest.raises(PlanNotForDeviceError, match="laid out for a processor with none"):
        check_plan(plan("optimised"), HERE, DeviceSettings())
