"""What a simulation is fed with: models and arrivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deployments.scheduling.request import Request, RequestId
from deployments.simulation.errors import UnknownModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedModel:
    """A model as the simulator needs it.

    Attributes:
        name: Model name.
        isolated_s: Isolated time L in seconds.
        block_times_s: Time of each block in seconds, in run order; one entry when not split.
        priority: Level of its requests where an arrival states none, 1 highest.
    """

    name: str
    isolated_s: float
    block_times_s: tuple[float, ...]
    priority: int = 1

    def in_even_blocks(self, num_blocks: int, cut_overhead_s: float) -> SimulatedModel:
        """The same model in ``num_blocks`` blocks of equal time, each cut adding ``cut_overhead_s`` to the whole."""
        whole_s = self.isolated_s + cut_overhead_s * (num_blocks - 1)
        return replace(self, block_times_s=(whole_s / num_blocks,) * num_blocks)

    def whole(self) -> SimulatedModel:
        """The same model, not split."""
        return replace(self, block_times_s=(self.isolated_s,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request to come.

    Attributes:
        arrival_s: Seconds since the start.
        model: Model name.
        priority: Level, 1 highest; None: the model's.
        deadline_s: Seconds after arrival in which it should be finished; None: alpha x isolated time.
    """

    arrival_s: float
    model: str
    priority: int | None = None
    deadline_s: float | None = None


def make_requests(arrivals: Sequence[Arrival], models: Mapping[str, SimulatedModel], *, alpha: float) -> list[Request]:
    """The requests of these arrivals, in arrival order, named ``0``, ``1`` ...

    Args:
        arrivals: In any order.
        models: By name.
        alpha: Response ratio up to which a request is on time.

    Raises:
        UnknownModelError: If an arrival names a model that is not there.
    """
    requests = []
    for number, arrival in enumerate(sorted(arrivals, key=lambda each: each.arrival_s)):
        requests.append(make_request(RequestId(str(number)), arrival, models, alpha=alpha))
    return requests


def make_request(
    request_id: RequestId, arrival: Arrival, models: Mapping[str, SimulatedModel], *, alpha: float
) -> Request:
    """The request of one arrival.

    Raises:
        UnknownModelError: If it names a model that is not there.
    """
    model = models.get(arrival.model)
    if model is None:
        raise UnknownModelError(arrival.model, tuple(models))
    allowed_s = alpha * model.isolated_s if arrival.deadline_s is None else arrival.deadline_s
    return Request(
        request_id=request_id,
        model=model.name,
        owner=model.name,
        arrival_s=arrival.arrival_s,
        isolated_s=model.isolated_s,
        block_times_s=model.block_times_s,
        deadline_s=arrival.arrival_s + allowed_s,
        priority=model.priority if arrival.priority is None else arrival.priority,
    )
