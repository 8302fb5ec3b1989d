"""The OpenCL device that blocks run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyopencl as cl

from opencl_runner.errors import NoOpenClDeviceError


@dataclass(frozen=True, slots=True)
class Device:
    """One device with one queue; everything on it runs in the order in which it is asked for.

    Attributes:
        context: pyopencl's.
        queue: The same, in order.
        name: Platform, device and driver with their versions: what compiled programs are valid for.
    """

    context: Any
    queue: Any
    name: str

    @property
    def handle(self) -> Any:
        """pyopencl's device."""
        return self.context.devices[0]


def open_device(index: int = 0) -> Device:
    """The ``index``-th OpenCL device of this machine, over all platforms.

    Raises:
        NoOpenClDeviceError: If it is not there.
    """
    try:
        devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error as error:
        raise NoOpenClDeviceError(f"no OpenCL platform ({error}): {_ADVICE}") from error
    if index >= len(devices):
        names = ", ".join(f"{number} {device.name.strip()}" for number, device in enumerate(devices)) or "none"
        raise NoOpenClDeviceError(f"OpenCL device {index} is not there (found: {names}): {_ADVICE}")
    device = devices[index]
    context = cl.Context([device])
    parts = (device.platform.name, device.platform.version, device.name, device.version, device.driver_version)
    return Device(context, cl.CommandQueue(context), " / ".join(part.strip() for part in parts))


_ADVICE = "install the device's OpenCL driver, or PoCL to run on the processor (pip install pocl-binary-distribution)"
