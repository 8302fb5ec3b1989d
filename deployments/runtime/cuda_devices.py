"""Which number CUDA gives, in this process, to the GPU that a device names."""

from __future__ import annotations

from deployments.runtime.errors import DeviceUnavailableError

VISIBLE = "CUDA_VISIBLE_DEVICES"


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
