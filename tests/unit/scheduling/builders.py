"""Requests for tests, with times that floating point adds exactly."""

from __future__ import annotations

from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.modes import Preemption
from deployments.scheduling.policies.table import make_policy
from deployments.scheduling.request import Request, RequestId


def request(
    name: str,
    *blocks_s: float,
    arrival_s: float = 0.0,
    model: str | None = None,
    owner: str | None = None,
    isolated_s: float | None = None,
    deadline_s: float | None = None,
    priority: int = 1,
    is_traced: bool = False,
) -> Request:
    """A request of model ``model`` (its own name if not stated), due at arrival + 4 x isolated if not stated."""
    times_s = blocks_s or (1.0,)
    alone_s = sum(times_s) if isolated_s is None else isolated_s
    return Request(
        request_id=RequestId(name),
        model=model or name,
        owner=owner or model or name,
        arrival_s=arrival_s,
        isolated_s=alone_s,
        block_times_s=times_s,
        deadline_s=arrival_s + 4.0 * alone_s if deadline_s is None else deadline_s,
        priority=priority,
        is_traced=is_traced,
    )


def allocator(policy: str = "fifo", *, preemption: Preemption = "always", **options: object) -> DeviceAllocator:
    """An allocator with this policy; ``options`` are the policy's."""
    return DeviceAllocator(policy=make_policy(policy, options), preemption=preemption)
