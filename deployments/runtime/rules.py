"""The rules by which the scheduling core of a device decides, from the device's settings."""

from __future__ import annotations

from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.policies.table import make_policy
from deployments.scheduling.rules import Rules


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
