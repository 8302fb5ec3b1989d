"""Which machine and runtime the measured times belong to."""

from __future__ import annotations

import datetime
import platform

import onnxruntime as ort

from split_tool.plan import MeasuredOn
from split_tool.processor import processor_name_and_features
from split_tool.sessions import Device


def describe_machine(device: Device) -> MeasuredOn:
    """The machine this process runs on, now."""
    processor, features = processor_name_and_features()
    return MeasuredOn(
        provider=device.provider,
        runtime=f"onnxruntime {ort.__version__}",
        num_threads=device.num_threads,
        processor=processor,
        processor_features=features,
        system=f"{platform.system()} {platform.machine()}",
        measured_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def lasting(where: MeasuredOn) -> dict[str, object]:
    """Its fields but for the date: what times and optimised graphs are valid for."""
    return {name: getattr(where, name) for name in where.__struct_fields__ if name != "measured_at"}


def is_same_machine(first: MeasuredOn, second: MeasuredOn) -> bool:
    """True if times and optimised graphs of one are valid for the other; the date does not matter."""
    return lasting(first) == lasting(second)
