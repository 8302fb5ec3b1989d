"""The order of grants that the core gives: what a real device's slice log is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.modes import Preemption
from deployments.scheduling.policies.policy import Policy
from deployments.scheduling.request import Request, RequestId
from deployments.simulation.simulator import simulate


def grant_order(
    requests: Sequence[Request], policy: Policy, *, preemption: Preemption = "always"
) -> list[tuple[RequestId, int]]:
    """Each turn as (who, first block), in order, if every block takes exactly its predicted time.

    A request that yields and is granted again at once goes on with the same turn.

    Args:
        requests: In any order; each arrives at its ``arrival_s``.
        policy: A fresh one.
        preemption: See ``DeviceAllocator``.
    """
    allocator = DeviceAllocator(policy=policy, preemption=preemption)
    run = simulate(sorted(requests, key=lambda each: each.arrival_s), allocator, record_slices=True)
    order: list[tuple[RequestId, int]] = []
    for turn in run.slices:
        if not order or order[-1][0] != turn.request_id:
            order.append((turn.request_id, turn.first_block))
    return order
