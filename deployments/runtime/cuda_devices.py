"""Which number CUDA gives, in this process, to the GPU that a device names."""

from __future__ import annotations

import os

from deployments.runtime.errors import DeviceUnavailableError
from deployments.runtime.settings import DeviceSettings

VISIBLE = "CUDA_VISIBLE_DEVICES"
CUDA_KINDS = ("cuda", "tensorrt")


def seen_index(device: DeviceSettings) -> int:
    """The number of the device among those of its kind that this process sees.

    Raises:
        DeviceUnavailableError: If it does not see that one.
    """
    return cuda_number(device.index, os.environ.get(VISIBLE)) if device.kind in CUDA_KINDS else device.index


def cuda_number(index: int, visible: str | None) -> int:
    """The number under which CUDA knows GPU ``index`` of the node here.

    Args:
        index: As the driver counts (``nvidia-smi``).
        visible: Value of ``CUDA_VISIBLE_DEVICES``; None: it is not set, all GPUs are seen.

    Raises:
        DeviceUnavailableError: If this process does not see that GPU; another one would run in its place.
    """
    if visible is None:
        return index
    seen = [each.strip() for each in visible.split(",")]
    if str(index) not in seen:
        raise DeviceUnavailableError(
            f"device cuda-{index} is not among the GPUs that this process may use ({VISIBLE}={visible!r}): start the "
            "server where it sees that GPU by its number, or leave ray_actor_options of the deployment alone"
        )
    return seen.index(str(index))
