"""The modes of a device: the five of SPLIT and ``slo``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from deployments.scheduling.errors import UnknownPolicyError

ModeName = Literal["slo", "dlir", "oyst", "bnst", "fifo", "parallel"]
Preemption = Literal["always", "auto", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """How a device is shared.

    Attributes:
        policy: Name of the policy, see ``policies.table.POLICIES``.
        exclusive: True: one request at a time has the device.
        preemption: When a holder is asked to give it up at a boundary: ``always`` where the policy prefers another,
            ``auto`` where that is also worth its cost, ``never``.
    """

    policy: str
    exclusive: bool
    preemption: Preemption


MODES: Mapping[ModeName, Mode] = {
    "slo": Mode(policy="slo", exclusive=True, preemption="always"),
    "dlir": Mode(policy="response_ratio", exclusive=True, preemption="auto"),
    "oyst": Mode(policy="response_ratio", exclusive=True, preemption="always"),
    "bnst": Mode(policy="response_ratio", exclusive=True, preemption="never"),
    "fifo": Mode(policy="fifo", exclusive=True, preemption="never"),
    "parallel": Mode(policy="fifo", exclusive=False, preemption="never"),
}


def find_mode(name: str) -> Mode:
    """The mode of this name.

    Raises:
        UnknownPolicyError: If there is none; the message says which there are.
    """
    for known, mode in MODES.items():
        if known == name:
            return mode
    raise UnknownPolicyError("mode", name, tuple(MODES))
