"""How a request of a chained model gets from one group of blocks to the next, by the handles of their deployments."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import ray
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from deployments.runtime.allocator_actor import explanation
from deployments.runtime.block_groups import BlockGroup, stay
from deployments.runtime.errors import ReplicaClosedError
from deployments.scheduling.explanation import Explanation, joined
from deployments.scheduling.request import Request


class Clock(msgspec.Struct, frozen=True):
    """The monotonic clock of a node.

    Attributes:
        node: Which node's; its processes share the clock.
        began_s: Wall time at which it showed 0, in seconds.
    """

    node: str
    began_s: float

    @classmethod
    def of_this_node(cls) -> Clock:
        """The clock that this process reads."""
        return cls(ray.get_runtime_context().get_node_id(), time.time() - time.monotonic())

    def read_on(self, other: Clock, request: Request) -> Request:
        """The request of this clock's node on another node, where the same moments have other numbers."""
        if other.node == self.node:
            return request
        ahead_s = self.began_s - other.began_s
        return replace(request, arrival_s=request.arrival_s + ahead_s, deadline_s=request.deadline_s + ahead_s)


class Crossing(msgspec.Struct, frozen=True):
    """What one group hands to the next; Ray carries the arrays as bytes beside their dtypes and shapes.

    Attributes:
        values: By name; bfloat16, 8-bit floats and types of less than a byte as numpy dtypes of ``ml_dtypes``.
        block_times_s: How long the blocks behind the first group have taken so far, in run order.
    """

    values: dict[str, np.ndarray]
    block_times_s: tuple[float, ...] = ()


class LaterGroups:
    """The groups behind the first one, as the replica of that one reaches them."""

    def __init__(self, model: str, handles: Sequence[DeploymentHandle[Any]]) -> None:
        """Nothing is sent yet.

        Args:
            model: Name of the model.
            handles: Of the deployments of all groups but the first.
        """
        self._model = model
        self._handles = tuple(handles)

    async def run(self, request: Request, values: dict[str, np.ndarray]) -> Crossing:
        """Run the blocks of all later groups; if the caller gives up, all of them do.

        Every group is called at once, with the answer of the one before as its argument: the values go from replica to
        replica, and this one gets the last answer only.

        Args:
            request: The whole request.
            values: What the first group gave.

        Raises:
            ReplicaClosedError: If a replica died meanwhile.
            Exception: What a group has raised.
        """
        clock = Clock.of_this_node()
        responses: list[Any] = []
        passed_on: Any = Crossing(values)
        try:
            for handle in self._handles:
                passed_on = handle.run.remote(request, clock, passed_on)
                responses.append(passed_on)
            crossing: Crossing = await passed_on
        except (RayError, RayServeException) as error:
            _give_up(responses)
            raise self._told(error) from error
        except BaseException:
            _give_up(responses)
            raise
        return crossing

    def _told(self, error: RayError | RayServeException) -> Exception:
        """What a group raised, which Ray hands over as a cause; else one of the replicas is gone."""
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception) and not isinstance(cause, RayError):
            return cause
        return ReplicaClosedError(
            f"a replica with later blocks of {self._model!r} died while the request was on its way: send it again"
        )


def _give_up(responses: Sequence[Any]) -> None:
    for response in responses:
        with contextlib.suppress(Exception):  # one that never got to a replica raises why
            response.cancel()


async def explanation_of_stays(request: Request, groups: Sequence[BlockGroup]) -> Explanation:
    """Where the time of a request went that has run in all groups; one actor call for each.

    Raises:
        UnknownRequestError: If an allocator no longer knows, or the group is on another node.
    """
    found: list[Explanation] = []
    for index, group in enumerate(groups):
        arrival_s = request.arrival_s + sum(each.total_s for each in found)
        found.append(await explanation(group.device, replace(stay(request, groups, index), arrival_s=arrival_s)))
    return joined(found)
