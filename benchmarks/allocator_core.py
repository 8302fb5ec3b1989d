"""What one decision of the allocator costs, by the number of waiting requests.

``python -m benchmarks.allocator_core [--json]``. A decision is one event with all that follows from it: a request is
submitted while another runs, the holder yields, the holder finishes. For each policy and number waiting the queue is
filled, then kept at that length while the calls are timed one by one. Deadlines of the waiting requests:

- ``usual``: arrival + 4 x isolated time, the backlog of an overload that has lasted for a while;
- ``loose``: far away, everybody can be on time;
- ``tight``: between the two, about 20 % more work than can be on time, none of it hopeless yet (worst case of ``slo``).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count, islice
from typing import Literal, get_args

from rich.console import Console
from rich.table import Table

from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.policies.table import POLICIES, make_policy
from deployments.scheduling.request import Request, RequestId

Deadlines = Literal["usual", "loose", "tight"]

_NUM_WARM_UP = 20
NUM_WAITING = (10, 100, 1_000, 10_000, 100_000)
_ISOLATED_S = {"squeezenet": 0.00735, "googlenet": 0.00897, "yolov2": 0.00618, "resnet50": 0.01911, "vgg19": 0.04709}
_NUM_BLOCKS = {"squeezenet": 2, "googlenet": 2, "yolov2": 2, "resnet50": 5, "vgg19": 12}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCost:
    """Cost of a decision of one policy.

    Attributes:
        policy: Its name.
        deadlines: See the module.
        decision_p50_us: Median in microseconds, by number waiting.
        decision_p99_us: 99th percentile in microseconds, by number waiting.
    """

    policy: str
    deadlines: Deadlines
    decision_p50_us: dict[int, float]
    decision_p99_us: dict[int, float]


def measure(
    policy: str, deadlines: Deadlines, *, num_waiting: Sequence[int] = NUM_WAITING, num_decisions: int = 600
) -> DecisionCost:
    """The cost of one policy's decisions; fewer of them where each walks a long queue."""
    p50_us, p99_us = {}, {}
    for number in num_waiting:
        enough = num_decisions if deadlines != "tight" else min(num_decisions, 10_000_000 // number)
        times_us = sorted(islice(_timed_decisions(policy, deadlines, number), _NUM_WARM_UP, _NUM_WARM_UP + enough))
        p50_us[number] = round(times_us[len(times_us) // 2], 2)
        p99_us[number] = round(times_us[len(times_us) * 99 // 100], 2)
    return DecisionCost(policy=policy, deadlines=deadlines, decision_p50_us=p50_us, decision_p99_us=p99_us)


def _timed_decisions(policy: str, deadlines: Deadlines, num_waiting: int) -> Iterator[float]:
    """Times of decisions in microseconds, without end."""
    allocator = DeviceAllocator(policy=make_policy(policy), recovering=True)
    numbers = count()
    rng = random.Random(0)
    mean_s = sum(_ISOLATED_S.values()) / len(_ISOLATED_S)
    horizon_s = {"usual": None, "loose": 1e6, "tight": 0.8 * num_waiting * mean_s}[deadlines]
    now_s = 0.0
    while allocator.num_waiting < num_waiting:
        allocator.submit(_request(next(numbers), rng, now_s, horizon_s), now_s)
        now_s += mean_s if deadlines == "usual" else 0.0
    allocator.resume(now_s)
    while True:
        holder = allocator.holder
        assert holder is not None
        blocks_done = allocator.blocks_done(holder.request_id)
        now_s += holder.block_times_s[blocks_done]
        newcomer = _request(next(numbers), rng, now_s, horizon_s)
        begin = time.perf_counter()
        if blocks_done + 1 < len(holder.block_times_s):
            allocator.yield_at_boundary(holder.request_id, blocks_done=blocks_done + 1, now_s=now_s)
            yield 1e6 * (time.perf_counter() - begin)
            continue
        allocator.finish(holder.request_id, now_s)
        yield 1e6 * (time.perf_counter() - begin)
        begin = time.perf_counter()
        allocator.submit(newcomer, now_s)
        yield 1e6 * (time.perf_counter() - begin)


def _request(number: int, rng: random.Random, now_s: float, horizon_s: float | None) -> Request:
    model = rng.choice(list(_ISOLATED_S))
    isolated_s = _ISOLATED_S[model]
    num_blocks = _NUM_BLOCKS[model]
    allowed_s = 4.0 * isolated_s if horizon_s is None else rng.uniform(0.2, 1.0) * horizon_s
    return Request(
        request_id=RequestId(str(number)),
        model=model,
        owner=model,
        arrival_s=now_s,
        isolated_s=isolated_s,
        block_times_s=(isolated_s / num_blocks,) * num_blocks,
        deadline_s=now_s + allowed_s,
    )


def _table(costs: Sequence[DecisionCost]) -> Table:
    table = Table(title="one decision, p50 / p99 in microseconds, by number waiting")
    table.add_column("policy")
    table.add_column("deadlines")
    for number in costs[0].decision_p50_us:
        table.add_column(f"{number:,}", justify="right")
    for cost in costs:
        cells = [f"{p50:.1f} / {cost.decision_p99_us[number]:.1f}" for number, p50 in cost.decision_p50_us.items()]
        table.add_row(cost.policy, cost.deadlines, *cells)
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.allocator_core", description="Cost of one allocator decision.")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    parser.add_argument("--policy", choices=list(POLICIES), action="append", help="default: all")
    parser.add_argument("--waiting", type=int, action="append", help="number waiting; default: 10 to 100,000")
    options = parser.parse_args(arguments)
    costs = [
        measure(policy, deadlines, num_waiting=options.waiting or NUM_WAITING)
        for policy in options.policy or POLICIES
        for deadlines in (get_args(Deadlines) if policy == "slo" else ("usual",))
    ]
    if options.json:
        print(json.dumps([asdict(cost) for cost in costs], indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 150).print(_table(costs))


if __name__ == "__main__":
    main()
