"""Which plans ONNX Runtime can serve on which kind of device."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from deployments.runtime.backends.onnx_sessions import check_plan
from deployments.runtime.errors import PlanNotForDeviceError
from deployments.runtime.settings import DeviceSettings
from split_tool.plan import MeasuredOn, Proof, SplitPlan

HERE = Path()


def plan(graph: Literal["optimised", "user"], features: tuple[str, ...] = ("none",)) -> SplitPlan:
    """A plan that was measured on a processor with these instruction sets."""
    return SplitPlan(
        schema_version=1,
        model="m",
        source_sha256="",
        inputs=(),
        outputs=(),
        graph=graph,
        isolated_ms=1.0,
        chain_ms=1.0,
        blocks=(),
        cuts=(),
        measured_on=MeasuredOn(
            provider="CPUExecutionProvider",
            runtime="r",
            num_threads=1,
            processor="c",
            processor_features=features,
            system="s",
            measured_at="t",
        ),
        proof=Proof(
            verdict="bit-identical",
            num_samples=1,
            seed=0,
            max_abs_difference=0.0,
            max_rel_difference=0.0,
            tolerances=(),
            cause=None,
        ),
    )


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
