"""Whether one more model fits into a device's memory, beside those that are there."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from deployments.runtime.messages import Hello, Refused
from deployments.runtime.settings import DeviceSettings

_MIB = 1 << 20
_CUDA_SUCCESS = 0


def budget_bytes(device: DeviceSettings) -> int | None:
    """What all models of the device may take together: as stated, else all memory of a CUDA device; None: no bound."""
    if device.memory_mb is not None:
        return device.memory_mb * _MIB
    return _cuda_memory_bytes(device.index) if device.kind in ("cuda", "tensorrt") else None


def refusal(newcomer: Hello, present: Iterable[Hello], budget: int | None) -> Refused | None:
    """Why a replica is not taken in; None if it fits.

    Args:
        newcomer: The replica.
        present: Those of the device that are there.
        budget: Bytes for all of them; None: no bound.
    """
    others = [hello for hello in present if hello.owner != newcomer.owner]
    free = None if budget is None else budget - sum(hello.memory_bytes for hello in others)
    if free is None or newcomer.memory_bytes <= free:
        return None
    device = newcomer.settings.device
    taken = ", ".join(f"{hello.model} {_mib(hello.memory_bytes)}" for hello in others if hello.memory_bytes)
    return Refused(
        reason="memory",
        message=f"model {newcomer.model!r} needs {_mib(newcomer.memory_bytes)} of {device}, where "
        f"{_mib(max(free, 0))} of {_mib(budget or 0)} are free ({taken or 'nothing is loaded'}): "
        f"{_mib(newcomer.memory_bytes - free)} too much. Unload a model, put it on another device, or raise memory_mb "
        "of the device if it has more",
    )


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / _MIB:.1f} MiB"


def _cuda_memory_bytes(index: int) -> int | None:
    """All memory of a CUDA device, asked of the driver without taking any; None where there is no driver."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if hasattr(ctypes, "WinDLL") else "libcuda.so.1")
    except OSError:
        return None
    device, size = ctypes.c_int(), ctypes.c_size_t()
    answers = (
        driver.cuInit(0),
        driver.cuDeviceGet(ctypes.byref(device), index),
        driver.cuDeviceTotalMem_v2(ctypes.byref(size), device),
    )
    return size.value if all(answer == _CUDA_SUCCESS for answer in answers) else None
