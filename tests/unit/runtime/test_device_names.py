"""Models may use a device of one name in several ways; how they take turns on it they must state alike."""

from __future__ import annotations

from deployments.runtime.claims import Claims
from deployments.runtime.settings import DeviceSettings

ON_OPENCL = DeviceSettings(name="board", kind="opencl", options={"target": "mali"})
ON_PROCESSOR = DeviceSettings(name="board", kind="cpu", threads=2)


def test_kinds_share_a_device_that_has_a_name() -> None:
    assert ON_OPENCL.device == ON_PROCESSOR.device == "board"
    assert ON_OPENCL.differences(ON_PROCESSOR) == ""
    claims = Claims(ON_OPENCL)
    claims.claim("a", ON_PROCESSOR)
    claims.claim("b", ON_OPENCL)
    assert claims.conflict == ""


def test_the_way_of_taking_turns_must_be_the_same() -> None:
    assert DeviceSettings(name="board", mode="fifo").differences(ON_OPENCL) == "mode: 'fifo' here, 'slo' there"


def test_without_a_name_everything_must_be_the_same() -> None:
    assert DeviceSettings(threads=2).differences(DeviceSettings()) == "threads: 2 here, 1 there"
