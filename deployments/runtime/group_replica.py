"""The deployment of a group of blocks in the chained layout that is not the first one."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from deployments.runtime.group_calls import Clock, Crossing
from deployments.runtime.model_settings import ModelSettings
from deployments.runtime.split_model import SplitModel
from deployments.scheduling.request import Request


class GroupReplica(SplitModel):
    """A ``SplitModel`` that has some later blocks of its model, and goes on with requests that began elsewhere."""

    def __init__(self, settings: ModelSettings, group: int) -> None:
        """See ``SplitModel``; its device is the group's."""
        device = settings.groups[group].device
        super().__init__(msgspec.structs.replace(settings, device=device), group=group)

    async def run(self, request: Request, clock: Clock, before: Crossing) -> Crossing:
        """Go on with a request; its time-out is the first group's business, which cancels this call.

        Args:
            request: The whole request.
            clock: That its times are read on.
            before: What the group before gave.

        Raises:
            Exception: See ``SplitModel.infer``.
        """
        here = clock.read_on(Clock.of_this_node(), request)
        times_s: list[float] = []
        values, _ = await self._take_turns(
            lambda loaded: replace(here, owner=loaded.thread.owner), before.values, on_block=times_s.append
        )
        return Crossing(values, (*before.block_times_s, *times_s))
