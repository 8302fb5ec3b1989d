"""What a preemption brings and what it costs."""

from __future__ import annotations

from deployments.scheduling.candidate import Candidate


def lowers_ratio_sum(challenger: Candidate, holder: Candidate, cost_s: float) -> bool:
    """True if running the challenger before the rest of the holder lowers the sum of their response ratios.

    The challenger ends earlier by what remains of the holder and pays one hand-over; the holder ends later by all of
    the challenger and pays two.

    Args:
        challenger: Who would get the device.
        holder: Who has it; its ``remaining_s`` counts from the boundary in question.
        cost_s: Time lost at one hand-over, in seconds, with what a boundary costs.
    """
    gain = (holder.remaining_s - cost_s) / challenger.isolated_s
    loss = (challenger.remaining_s + 2.0 * cost_s) / holder.isolated_s
    return gain > loss
