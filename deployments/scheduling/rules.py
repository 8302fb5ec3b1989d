"""The rules by which the requests of one device compete."""

from __future__ import annotations

from typing import TypedDict

from deployments.scheduling.modes import Preemption
from deployments.scheduling.policies.policy import Policy


class Rules(TypedDict):
    """What may change while a device is in use; each as of ``DeviceAllocator``."""

    policy: Policy
    exclusive: bool
    preemption: Preemption
    max_waiting: int | None
    max_waiting_per_model: int | None
