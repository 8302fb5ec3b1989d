"""Where the time of a request went, as its answer tells it: plain values under ``parameters.explanation``."""

from __future__ import annotations

from typing import Any

from deployments.scheduling.explanation import Explanation

MAX_ENTRIES = 50
"""Requests that were waited for, and blocks, that are listed; the totals always count all."""


def plain_explanation(explanation: Explanation) -> dict[str, Any]:
    """The explanation in milliseconds; see ``Explanation`` for the meaning of each.

    The longest ``MAX_ENTRIES`` of those waited for are listed, in the order in which they had the device.
    """
    longest = sorted(explanation.behind, key=lambda blocker: -blocker.ran_s)[:MAX_ENTRIES]
    predicted_s = explanation.predicted_wait_s
    return {
        "total_ms": _ms(explanation.total_s),
        "ran_ms": _ms(explanation.ran_s),
        "waited_ms": _ms(explanation.waited_s),
        "idle_ms": _ms(explanation.idle_s),
        "predicted_wait_ms": None if predicted_s is None else _ms(predicted_s),
        "block_ms": [_ms(time_s) for time_s in explanation.block_s[:MAX_ENTRIES]],
        "behind": [
            {"request": blocker.request_id, "model": blocker.model, "ran_ms": _ms(blocker.ran_s)}
            for blocker in explanation.behind
            if blocker in longest
        ],
        "preempted_by": [
            {
                "request": preemption.request_id,
                "model": preemption.model,
                "after_blocks": preemption.blocks_done,
                "lost_ms": _ms(preemption.lost_s),
            }
            for preemption in explanation.preemptions[:MAX_ENTRIES]
        ],
        "granted": list(explanation.reasons[:MAX_ENTRIES]),
    }


def _ms(time_s: float) -> float:
    return round(time_s * 1e3, 3)
