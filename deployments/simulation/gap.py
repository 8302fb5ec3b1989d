"""How many more requests a policy lets be late than the best schedule could, on small random instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from deployments.simulation.contenders import Contender
from deployments.simulation.experiment import Setting, run_requests
from deployments.simulation.models import paper_models, split_evenly
from deployments.simulation.optimum import fewest_late
from deployments.simulation.workload import Arrival, make_requests

_SPLIT = "vgg19=4,resnet50=3,others=1"
_NUM_REQUESTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Late requests of one contender against the optimum.

    Attributes:
        contender: Who.
        num_instances: Instances.
        num_requests: Requests in all.
        num_late: Late requests of the contender in all.
        num_late_best: Of the offline optimum, which knows all arrivals beforehand.
        num_optimal: Instances in which the contender is as good.
    """

    contender: Contender
    num_instances: int
    num_requests: int
    num_late: int
    num_late_best: int
    num_optimal: int

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "policy": self.contender.label,
            "instances": self.num_instances,
            "requests": self.num_requests,
            "late": self.num_late,
            "late_optimum": self.num_late_best,
            "instances_optimal": self.num_optimal,
        }


def measure_gap(contenders: Sequence[Contender], *, num_instances: int, setting: Setting, seed: int = 0) -> list[Gap]:
    """Each contender on bursts of eight requests of the paper's models, split alike for all, without costs.

    Args:
        contenders: Who; their own splits are ignored, those that never preempt run their blocks in a row.
        num_instances: Bursts.
        setting: For alpha.
        seed: Same seed, same bursts.
    """
    models = split_evenly(paper_models(), _SPLIT, cut_overhead_s=0.0)
    random = Random(seed)
    num_late = [0] * len(contenders)
    num_optimal = [0] * len(contenders)
    num_late_best = 0
    for _ in range(num_instances):
        window_s = random.uniform(0.01, 0.08)
        arrivals = [
            Arrival(arrival_s=random.uniform(0.0, window_s), model=random.choice(list(models)))
            for _ in range(_NUM_REQUESTS)
        ]
        requests = make_requests(arrivals, models, alpha=setting.alpha)
        best = fewest_late(requests)
        num_late_best += best
        for index, contender in enumerate(contenders):
            run = run_requests(contender, requests, setting)
            late = sum(run.finish_s.get(each.request_id, float("inf")) > each.deadline_s + 1e-9 for each in requests)
            num_late[index] += late
            num_optimal[index] += late == best
    return [
        Gap(
            contender=contender,
            num_instances=num_instances,
            num_requests=num_instances * _NUM_REQUESTS,
            num_late=num_late[index],
            num_late_best=num_late_best,
            num_optimal=num_optimal[index],
        )
        for index, contender in enumerate(contenders)
    ]
