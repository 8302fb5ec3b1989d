"""``sjf``: shortest job first; who holds the device runs to its end."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.policies.keyed_order import KeyedOrder, smallest_key
from deployments.scheduling.policies.levels import Levels
from deployments.scheduling.policies.options import StarvationOptions


def _remaining_s(candidate: Candidate) -> float:
    return candidate.remaining_s


def should_hold(waiting: Sequence[Candidate], holder: Candidate | None, now_s: float) -> Candidate | None:
    """The holder; without one, who needs the device for the shortest time."""
    return smallest_key(waiting, holder, _remaining_s, is_preemptive=False)


def make_sjf(options: StarvationOptions) -> Levels[KeyedOrder]:
    """The policy; within a level ``should_hold`` decides."""
    return Levels(lambda: KeyedOrder(_remaining_s, is_preemptive=False), options)
