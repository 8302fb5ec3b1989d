"""How several devices do as their number grows, each under the same load, by the way requests are shared out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from time import perf_counter

from deployments.scheduling.request import Request
from deployments.simulation.contenders import Contender
from deployments.simulation.experiment import Setting, Workload
from deployments.simulation.measures import ci95, measure
from deployments.simulation.routers import AT_THE_DOOR, ROUTERS, Router, within_nodes
from deployments.simulation.simulator import Run, simulate_devices
from deployments.simulation.workload import make_requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """One row: so many devices, one policy, one way to choose among them.

    Goodput and late requests are means over the seeds; the rest is of all requests of all seeds together.

    Attributes:
        policy: Label of the contender.
        router: Name of the router.
        num_devices: Devices.
        load: Isolated run time that arrives per second and device.
        num_seeds: Variants of the arrivals.
        requests_per_s: Requests that came in.
        goodput_per_s: Of those, answered before their deadlines.
        goodput_ci95: Half of its 95 % confidence interval over the seeds; 0 for one.
        late_pct: By alpha, per cent of the requests with a response ratio above it; a refused one counts.
        late_ci95: Half of its 95 % confidence interval over the seeds, by alpha, in per cent; 0 for one.
        p99: 99th percentile of the response ratio.
        device_use_pct: Per cent of the time that the devices ran blocks, in the mean.
        hops_pct: Per cent of the requests that went to another device than the one where they came in.
        turns_per_request: Turns that a request took; each is one message to the allocator, and one more the request.
        decision_us: What choosing a device took, in microseconds: the mean, on the machine that simulated.
    """

    policy: str
    router: str
    num_devices: int
    load: float
    num_seeds: int
    requests_per_s: float
    goodput_per_s: float
    goodput_ci95: float
    late_pct: dict[float, float]
    late_ci95: dict[float, float]
    p99: float
    device_use_pct: float
    hops_pct: float
    turns_per_request: float
    decision_us: float

    def as_json(self) -> dict[str, object]:
        """Plain values; per cent by alpha as a string."""
        return asdict(self) | {"late_pct": _plain(self.late_pct), "late_ci95": _plain(self.late_ci95)}


def measure_scaling(
    contenders: Sequence[Contender],
    routers: Sequence[str],
    workloads: Sequence[tuple[int, Workload]],
    setting: Setting,
    *,
    num_per_node: int | None = None,
    on_result: Callable[[Scaling], None],
) -> list[Scaling]:
    """One row per workload, contender and router.

    Args:
        contenders: Who; in exclusive mode.
        routers: Names in ``ROUTERS``.
        workloads: For how many devices, and what comes to all of them together.
        setting: With which costs and deadlines.
        num_per_node: Devices of a node; a request stays on the node where it comes in. None: all are on one.
        on_result: Called with each row as soon as it is there.
    """
    rows = []
    for num_devices, workload in workloads:
        for contender in contenders:
            models = contender.split_models(workload.models, setting.split, setting.costs)
            alpha = setting.alpha if contender.alpha is None else contender.alpha
            variants = [make_requests(arrivals, models, alpha=alpha) for arrivals in workload.variants]
            for router in routers:
                rows.append(_row(contender, router, num_devices, num_per_node, workload, variants, setting))
                on_result(rows[-1])
    return rows


def _row(
    contender: Contender,
    router: str,
    num_devices: int,
    num_per_node: int | None,
    workload: Workload,
    variants: Sequence[Sequence[Request]],
    setting: Setting,
) -> Scaling:
    costs = replace(setting.costs, hop_s=0.0) if router in AT_THE_DOOR else setting.costs
    spent_s: list[float] = []
    runs: list[Run] = []
    for seed, requests in enumerate(variants):
        allocators = [contender.make_allocator(costs) for _ in range(num_devices)]
        chosen = within_nodes(ROUTERS[router](costs.hop_s, seed), num_per_node or num_devices)
        timed = _timed(chosen, spent_s)
        runs.append(simulate_devices(requests, allocators, timed, costs=costs, seed=seed))
    measures = measure(runs, alphas=setting.alphas)
    by_seed = [measure([run], alphas=setting.alphas) for run in runs]
    goodputs_per_s = [each.goodput_per_s for each in by_seed]
    late_pct = {alpha: [each.overall.violation_pct[alpha] for each in by_seed] for alpha in setting.alphas}
    num_requests = sum(len(run.requests) for run in runs)
    span_s = sum(run.requests[-1].arrival_s - run.requests[0].arrival_s for run in runs)
    assert workload.load is not None
    return Scaling(
        policy=contender.label,
        router=router,
        num_devices=num_devices,
        load=workload.load / num_devices,
        num_seeds=len(runs),
        requests_per_s=num_requests / span_s,
        goodput_per_s=fmean(goodputs_per_s),
        goodput_ci95=ci95(goodputs_per_s),
        late_pct={alpha: fmean(shares) for alpha, shares in late_pct.items()},
        late_ci95=measures.violation_ci95,
        p99=measures.overall.p99,
        device_use_pct=measures.device_use_pct,
        hops_pct=100.0 * sum(run.num_hops for run in runs) / num_requests,
        turns_per_request=measures.num_turns / num_requests,
        decision_us=1e6 * sum(spent_s) / len(spent_s),
    )


def _timed(router: Router, spent_s: list[float]) -> Router:
    """The router, with the time of each decision noted down."""

    def choose(*arguments: object) -> int:
        start_s = perf_counter()
        number = router(*arguments)  # type: ignore[arg-type]
        spent_s.append(perf_counter() - start_s)
        return number

    return choose


def _plain(by_alpha: dict[float, float]) -> dict[str, float]:
    return {f"{alpha:g}": share for alpha, share in by_alpha.items()}
