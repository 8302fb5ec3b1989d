"""Who should have the device from the next boundary on, and when that has to be asked again."""

from __future__ import annotations

from math import inf

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.modes import Preemption
from deployments.scheduling.policies.policy import Policy

_LOOK_AHEAD = 0.1
_MIN_LOOK_S = 0.0005
_MAX_FORESEEN = 100


def boundary_s(holder: Candidate | None, now_s: float) -> float:
    """The predicted next boundary; now if the device is free, or the running block takes longer than predicted."""
    return now_s if holder is None else max(now_s, holder.block_began_s + holder.running_block_s)


class NextTurn:
    """The policy's answer, where the preemption rule lets it count.

    Args:
        policy: Knows all that wait.
        preemption: See ``DeviceAllocator``.
        handover_s: Time lost when the device changes hands, in seconds.
    """

    def __init__(self, policy: Policy, preemption: Preemption, handover_s: float) -> None:
        self._policy = policy
        self._preemption = preemption
        self._handover_s = handover_s

    def best(self, at_s: float, holder: Candidate) -> Candidate:
        """Who should hold the device at a boundary, the holder or one that waits."""
        if self._preemption == "never":
            return holder
        winner = self._policy.choose(at_s, holder)
        if winner is None or winner is holder:
            return holder
        if self._preemption == "auto" and not self._policy.is_worth(winner, holder, at_s, self._handover_s):
            return holder
        return winner

    def is_of_another(self, holder: Candidate, now_s: float) -> bool:
        """True if another should hold the device from the next boundary on."""
        if self._preemption == "never" or holder.is_in_last_block:
            return False
        return self.best(boundary_s(holder, now_s), holder) is not holder

    def look_again_s(self, holder: Candidate, now_s: float) -> float | None:
        """When to ask again, shortly before a boundary that has not been asked about; None: no need."""
        if self._preemption == "never" or holder.is_in_last_block:
            return None
        change_s = self._policy.next_change_s(now_s, holder)
        if change_s is None:
            return None
        block_s = holder.running_block_s
        ahead_s = _LOOK_AHEAD * block_s
        look_s = holder.block_began_s + block_s - ahead_s
        if look_s <= now_s:
            look_s = max(now_s, holder.block_began_s + block_s) + max(block_s - ahead_s, _MIN_LOOK_S)
        return max(look_s, change_s)

    def predicted_wait_s(self, candidate: Candidate, holder: Candidate | None, now_s: float) -> float:
        """How long a waiting request waits for its first turn if nothing else happens, in seconds.

        Each that is chosen before it runs to its end; the policy is asked again and again, and left as it was found. At
        most 100 go before: where there are more, the wait is at least this long. O(those before x cost of a decision).

        Args:
            candidate: One of those that wait.
            holder: Who has the device; None: nobody, or nobody that may keep it.
            now_s: Current monotonic time.
        """
        return self._foresee(candidate, holder, now_s, inf, _MAX_FORESEEN)[0]

    def short_wait_s(
        self, candidate: Candidate, holder: Candidate | None, now_s: float, *, limit_s: float, max_before: int
    ) -> float | None:
        """The same where it is at most ``limit_s`` and at most ``max_before`` requests go before; None: it is not."""
        wait_s, is_reached = self._foresee(candidate, holder, now_s, limit_s, max_before)
        return wait_s if is_reached else None

    def _foresee(
        self, candidate: Candidate, holder: Candidate | None, now_s: float, limit_s: float, max_before: int
    ) -> tuple[float, bool]:
        """How long it waits, and True; or for how long that has been looked into, and False."""
        free_s = boundary_s(holder, now_s)
        policy = self._policy
        before: list[Candidate] = []
        yielding = holder if holder is not None and self.best(free_s, holder) is not holder else None
        if yielding is not None:
            policy.add(yielding)
        elif holder is not None:
            free_s += holder.remaining_s
        first = policy.choose(free_s, None)
        while first is not None and first is not candidate and len(before) < max_before and free_s - now_s <= limit_s:
            policy.remove(first)
            before.append(first)
            free_s += first.remaining_s
            first = policy.choose(free_s, None)
        for each in before:
            if each is not yielding:
                policy.add(each)
        if yielding is not None and yielding not in before:
            policy.remove(yielding)
        return free_s - now_s, first is None or first is candidate
