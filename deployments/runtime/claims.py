"""Which settings of a device are in force while its models run: what their replicas claim, if they agree.

All models of a device state the same settings when they start. A replica may claim others later; they come into force
once all that claim anything claim the same. Until then, and if they never do, what was in force stays so.
"""

from __future__ import annotations

from deployments.runtime.messages import PROTOCOL_VERSION, Hello, Refused
from deployments.runtime.settings import DeviceSettings


class Claims:
    """The claims of the replicas that are connected, by owner."""

    def __init__(self, stated: DeviceSettings) -> None:
        """Nobody claims anything: ``stated`` is in force."""
        self.stated = stated
        self.in_force = stated
        self._claims: dict[str, DeviceSettings] = {}

    def claim(self, owner: str, settings: DeviceSettings | None) -> None:
        """A replica wants other settings, or no longer: with the last claim withdrawn, what was stated holds again."""
        if settings is not None:
            self._claims[owner] = settings
        elif self._claims.pop(owner, None) is not None and not self._claims:
            self.in_force = self.stated
        self._settle()

    def forget(self, owner: str) -> None:
        """A replica is gone; its claim stays in force if nobody else has one."""
        self._claims.pop(owner, None)
        self._settle()

    def refusal(self, hello: Hello) -> Refused | None:
        """Why a replica is not taken in; None if it is."""
        if hello.version != PROTOCOL_VERSION:
            return Refused(
                reason="version",
                message=f"the allocator speaks version {PROTOCOL_VERSION}, the replica version {hello.version}: "
                "stop the old cluster first",
            )
        if difference := hello.settings.differences(self.stated):
            return Refused(
                reason="settings",
                message=f"model {hello.model!r} states other settings for device {self.stated.device} than the "
                f"models that are there: {difference}. State them once for all models "
                "of a device; to change them, stop the models of the device first",
            )
        return None

    @property
    def conflict(self) -> str:
        """How the claims disagree, for people; empty if they agree."""
        (first_owner, first), *others = self._claims.items() or [("", self.in_force)]
        for owner, settings in others:
            if difference := first.differences(settings):
                return f"{first_owner} and {owner} disagree: {difference}"
        return ""

    def _settle(self) -> None:
        if self._claims and not self.conflict:
            self.in_force = next(iter(self._claims.values()))
