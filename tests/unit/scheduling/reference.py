"""What a policy means, written down a second time: stateless, over plain lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.policies import edf, fifo, response_ratio, sjf, slo, srpt
from deployments.scheduling.request import Request

Meaning = Callable[[Sequence[Candidate], Candidate | None, float], Candidate | None]

LATE_RESERVE = 0.375

MEANINGS: dict[str, Meaning] = {
    "fifo": fifo.should_hold,
    "sjf": sjf.should_hold,
    "srpt": srpt.should_hold,
    "edf": edf.should_hold,
    "response_ratio": response_ratio.should_hold,
    "slo": lambda waiting, holder, now_s: slo.should_hold(waiting, holder, now_s, LATE_RESERVE),
}


def due(candidate: Candidate | Request, bound_s: float | None, bound_ratio: float | None) -> float:
    """When a request becomes overdue."""
    by_time_s = inf if bound_s is None else bound_s
    by_ratio_s = inf if bound_ratio is None else bound_ratio * candidate.isolated_s
    return candidate.arrival_s + min(by_time_s, by_ratio_s)


def should_hold(
    policy: str,
    waiting: Sequence[Candidate],
    holder: Candidate | None,
    now_s: float,
    *,
    bound_s: float | None = None,
    bound_ratio: float | None = None,
    across: bool = False,
) -> Candidate | None:
    """Who should hold the device; promoted requests come first without a limit (share 1)."""
    everybody = [*waiting, holder] if holder is not None else list(waiting)
    if policy == "fifo" or not everybody:
        return MEANINGS[policy](waiting, holder, now_s)
    level = min(each.priority for each in everybody)
    peers = [each for each in everybody if each.priority == level]
    due_s = {each.sequence: due(each, bound_s, bound_ratio) for each in everybody}
    overdue = [each for each in (everybody if across else peers) if due_s[each.sequence] <= now_s]
    if overdue:
        return min(overdue, key=lambda each: (due_s[each.sequence], each.arrival_s, each.sequence))
    return MEANINGS[policy]([each for each in peers if each is not holder], holder if holder in peers else None, now_s)
