"""Runs contenders over workloads: one result per contender, load and mix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from deployments.scheduling.request import Request
from deployments.simulation.arrivals import ArrivalShape, ClosedLoop, make_arrivals
from deployments.simulation.contenders import Contender
from deployments.simulation.costs import NO_COSTS, Costs
from deployments.simulation.measures import DEFAULT_ALPHAS, RunMeasures, measure
from deployments.simulation.parallel import simulate_parallel
from deployments.simulation.simulator import NextRequest, Run, simulate
from deployments.simulation.workload import Arrival, SimulatedModel, make_requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """A closed loop: clients that send their next request some time after the last one has ended.

    Attributes:
        num_clients: How many; they take the models in turn.
        think_s: Mean time between an end and the next request, in seconds, exponential.
        num_requests: Requests in all.
        seeds: One variant each.
    """

    num_clients: int
    think_s: float
    num_requests: int
    seeds: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Requests of one kind, in as many variants as there are seeds.

    Attributes:
        mix: What to call it.
        load: Isolated run time that arrives per second; None: not chosen (a trace).
        models: By name.
        variants: Arrivals, one sequence per seed; empty for a closed loop.
        clients: The closed loop; None: arrivals do not depend on ends.
    """

    mix: str
    load: float | None
    models: Mapping[str, SimulatedModel]
    variants: Sequence[Sequence[Arrival]]
    clients: Clients | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What holds for all runs of an experiment.

    Attributes:
        costs: Costs of the device.
        split: How models are split where the contender does not say; None: as they are.
        alpha: Deadline as a multiple of the isolated time, where neither arrival nor contender says.
        alphas: Response ratios above which violations are counted.
    """

    costs: Costs = NO_COSTS
    split: str | None = None
    alpha: float = 4.0
    alphas: Sequence[float] = DEFAULT_ALPHAS


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One row of a table.

    Attributes:
        contender: Who.
        workload: On what.
        measures: How well, over all seeds.
    """

    contender: Contender
    workload: Workload
    measures: RunMeasures

    def as_json(self) -> dict[str, object]:
        """Plain values; per cent by alpha as a string."""
        return {
            "policy": self.contender.label,
            "load": self.workload.load,
            "mix": self.workload.mix,
            **_plain(asdict(self.measures.overall)),
            "goodput_per_s": self.measures.goodput_per_s,
            "device_use_pct": self.measures.device_use_pct,
            "num_turns": self.measures.num_turns,
            "violation_ci95": {f"{alpha:g}": each for alpha, each in self.measures.violation_ci95.items()},
            "jitter_ci95": self.measures.jitter_ci95,
            "by_model": {model: _plain(asdict(each)) for model, each in self.measures.by_model.items()},
        }


def synthetic_workload(
    models: Mapping[str, SimulatedModel],
    *,
    load: float,
    shape: ArrivalShape,
    num_per_model: int,
    seeds: Sequence[int],
    shares: Mapping[str, float] | None = None,
) -> Workload:
    """Seeded arrivals of all models at this load."""
    variants = [
        make_arrivals(
            list(models.values()), load=load, num_per_model=num_per_model, seed=seed, shape=shape, shares=shares
        )
        for seed in seeds
    ]
    return Workload(mix=shape.shape, load=load, models=models, variants=variants)


RequestCache = dict[tuple[str | None, float], list[list[Request]]]


def run_contender(
    contender: Contender,
    workload: Workload,
    setting: Setting,
    *,
    record_slices: bool = False,
    cache: RequestCache | None = None,
) -> list[Run]:
    """One run per variant of the workload.

    Args:
        contender: Who.
        workload: On what.
        setting: With which costs and deadlines.
        record_slices: Keep every turn.
        cache: Requests already made for this workload and setting, by split and alpha; new ones are added.
    """
    models = contender.split_models(workload.models, setting.split, setting.costs)
    alpha = setting.alpha if contender.alpha is None else contender.alpha
    if workload.clients is not None:
        return _run_closed_loop(contender, workload.clients, models, alpha, setting)
    cache = {} if cache is None else cache
    key = (contender.split or setting.split, alpha)
    if key not in cache:
        cache[key] = [make_requests(arrivals, models, alpha=alpha) for arrivals in workload.variants]
    return [
        run_requests(contender, requests, setting, seed, record_slices=record_slices)
        for seed, requests in enumerate(cache[key])
    ]


def run_requests(
    contender: Contender,
    requests: Sequence[Request],
    setting: Setting,
    seed: int = 0,
    *,
    record_slices: bool = False,
    next_request: NextRequest | None = None,
) -> Run:
    """One run of these requests, in turns or all at once; arguments as above and as in ``simulate``."""
    allocator = contender.make_allocator(setting.costs)
    if not contender.exclusive:
        return simulate_parallel(
            requests,
            allocator,
            interference=setting.costs.interference,
            record_slices=record_slices,
            next_request=next_request,
        )
    return simulate(
        requests,
        allocator,
        costs=setting.costs,
        seed=seed,
        record_slices=record_slices,
        next_request=next_request,
    )


def _run_closed_loop(
    contender: Contender, clients: Clients, models: Mapping[str, SimulatedModel], alpha: float, setting: Setting
) -> list[Run]:
    runs = []
    for seed in clients.seeds:
        loop = ClosedLoop(
            list(models.values()),
            num_clients=clients.num_clients,
            think_s=clients.think_s,
            num_requests=clients.num_requests,
            alpha=alpha,
            seed=seed,
        )
        runs.append(run_requests(contender, loop.first, setting, seed, next_request=loop.next_request))
    return runs


def compare(
    contenders: Sequence[Contender],
    workloads: Sequence[Workload],
    setting: Setting,
    *,
    on_result: Callable[[Result], None] | None = None,
) -> list[Result]:
    """All contenders on all workloads, in this order.

    Args:
        contenders: Who.
        workloads: On what.
        setting: With which costs and deadlines.
        on_result: Called with each result as soon as it is there.
    """
    results = []
    for workload in workloads:
        cache: RequestCache = {}
        for contender in contenders:
            runs = run_contender(contender, workload, setting, cache=cache)
            result = Result(contender=contender, workload=workload, measures=measure(runs, alphas=setting.alphas))
            results.append(result)
            if on_result is not None:
                on_result(result)
    return results


def _plain(measures: dict[str, object]) -> dict[str, object]:
    by_alpha = measures["violation_pct"]
    assert isinstance(by_alpha, dict)
    return {**measures, "violation_pct": {f"{alpha:g}": share for alpha, share in by_alpha.items()}}
