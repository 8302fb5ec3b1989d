"""The rules by which the scheduling core of a device decides, from the device's settings."""

from __future__ import annotations

from typing import TypedDict

from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.modes import Preemption
from deployments.scheduling.policies.policy import Policy
from deployments.scheduling.policies.table import make_policy


class Rules(TypedDict):
    """What the core takes from the device's settings, when it is made and when they change."""

    policy: Policy
    exclusive: bool
    preemption: Preemption
    max_waiting: int | None
    max_waiting_per_model: int | None


def rules_of(settings: DeviceSettings) -> Rules:
    """The rules of a device with these settings."""
    sharing = settings.sharing
    return {
        "policy": make_policy(sharing.policy, settings.policy_options),
        "exclusive": sharing.exclusive,
        "preemption": sharing.preemption,
        "max_waiting": settings.max_waiting,
        "max_waiting_per_model": settings.max_waiting_per_model,
    }
