"""How one model is served."""

from __future__ import annotations

import msgspec

from deployments.runtime.block_groups import BlockGroup
from deployments.runtime.settings import DeviceSettings


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One model as it is served.

    Attributes:
        model: Its name.
        folder: Folder of its split plan, or of its ``model.onnx``.
        version: Its version, as clients name it.
        device: The device and what its models share.
        alpha: A request's deadline is its arrival plus alpha times the isolated time, unless it has its own.
        deadline_s: Deadline in seconds after arrival for every request of this model; None: by alpha.
        margin: Share of the time to a deadline, whoever sets it, that is kept for turns that last longer than
            predicted: turns are given as if the answer were wanted so much earlier.
        margin_s: The same in seconds, for the way to and from the client; at most half of what the deadline leaves.
        priority: Level of requests that state none, 1 is the highest.
        timeout_s: Longest time a request may take before it is given up with an error; None: no limit.
        groups: The deployments of the chained layout; none in the fused one.
    """

    model: str
    folder: str
    version: str = "1"
    device: DeviceSettings
    alpha: float = 4.0
    deadline_s: float | None = None
    margin: float = 0.0
    margin_s: float = 0.0
    priority: int = 1
    timeout_s: float | None = None
    groups: tuple[BlockGroup, ...] = ()

    def aim_s(self, wanted_s: float | None, isolated_s: float) -> float:
        """When turns try to have a request answered, in seconds after its arrival.

        Args:
            wanted_s: When the request itself says, in seconds after its arrival; None: it does not.
            isolated_s: How long it takes alone.
        """
        if wanted_s is None:
            wanted_s = self.alpha * isolated_s if self.deadline_s is None else self.deadline_s
        aim_s = (1.0 - self.margin) * wanted_s
        return aim_s - min(self.margin_s, max(aim_s - isolated_s, 0.0) / 2)
