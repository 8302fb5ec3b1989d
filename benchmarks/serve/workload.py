"""What is sent in each round: where the arrivals come from, the same for every competitor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.load.arrivals import ZOO_NAMES, recorded_arrivals, synthetic_arrivals
from deployments.simulation.arrivals import ArrivalShape, ClosedLoop
from deployments.simulation.models import models_from_times
from deployments.simulation.traces import Trace, read_trace
from deployments.simulation.workload import Arrival

Source = Literal["poisson", "gamma", "onoff", "constant", "closed", "trace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Where arrivals come from.

    Attributes:
        source: A shape of ``ArrivalShape``, ``closed`` or ``trace``.
        cv: ``gamma``: coefficient of variation of the gaps.
        trace: ``trace``: the file.
        mix: ``trace``: which of its mixes, where it has several.
        names: ``trace``: what its models are called here, over the built-in names.
        num_clients: ``closed``: how many.
        think_s: ``closed``: mean time between an answer and the client's next request.
        seconds: Length of a round.
        seed: Of arrivals and inputs; each round has its own arrivals.
    """

    source: Source
    cv: float
    trace: Path | None
    mix: str | None
    names: Mapping[str, str]
    num_clients: int
    think_s: float
    seconds: float
    seed: int

    @property
    def text(self) -> str:
        """For a title."""
        if self.source == "trace":
            return f"recorded arrivals ({'' if self.trace is None else self.trace.name} {self.mix or ''})".strip()
        if self.source == "closed":
            return f"{self.num_clients} clients, {self.think_s * 1e3:g} ms between requests"
        return {"gamma": f"gamma arrivals (CV {self.cv:g})", "onoff": "arrivals in bursts"}.get(
            self.source, f"{self.source} arrivals"
        )

    def arrivals(self, isolated_s: Mapping[str, float], *, load: float, number: int) -> tuple[Arrival, ...]:
        """The arrivals of one round; not for ``closed``.

        Args:
            isolated_s: Isolated time of each model, in seconds.
            load: Share of the device's time asked for.
            number: Of the round.

        Raises:
            TraceModelUnknownError: If the recording has a model that is not here.
            TraceFormatError: If it cannot be read.
        """
        if self.source == "trace":
            return recorded_arrivals(
                self._read(),
                isolated_s,
                load=load,
                duration_s=self.seconds,
                start_s=number * self.seconds,
                names={**ZOO_NAMES, **self.names},
            )
        assert self.source != "closed"
        return synthetic_arrivals(
            isolated_s,
            load=load,
            duration_s=self.seconds,
            seed=self.seed + number,
            shape=ArrivalShape(shape=self.source, cv=self.cv),
        )

    def closed_loop(self, isolated_s: Mapping[str, float], *, number: int) -> ClosedLoop:
        """The clients of one round."""
        return ClosedLoop(
            list(models_from_times(isolated_s).values()),
            num_clients=self.num_clients,
            think_s=self.think_s,
            num_requests=1_000_000,  # the time ends it
            alpha=4.0,
            seed=self.seed + number,
        )

    def _read(self) -> Trace:
        assert self.trace is not None
        return read_trace(self.trace, mix=self.mix)
