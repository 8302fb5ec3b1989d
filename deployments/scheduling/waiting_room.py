"""Those who wait: known to the policy, within bounds, and given up where admission control says so."""

from __future__ import annotations

from typing import Protocol

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.decision import Refusal
from deployments.scheduling.errors import ModelQueueFullError, QueueFullError, RefusedError
from deployments.scheduling.policies.policy import Policy
from deployments.scheduling.request import Request


class Watcher(Protocol):
    """Who keeps a copy of what waits."""

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait."""

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more."""


class WaitingRoom:
    """The waiting requests of one device.

    Args:
        policy: Is told who begins to wait and who waits no more.
        max_waiting: Most requests that may wait; None: no bound.
        max_waiting_per_model: Most requests of one model that may wait; None: no bound.
        watcher: Is told the same as the policy; None: nobody is.
    """

    def __init__(
        self,
        policy: Policy,
        max_waiting: int | None,
        max_waiting_per_model: int | None,
        watcher: Watcher | None = None,
    ) -> None:
        self._policy = policy
        self._max_waiting = max_waiting
        self._max_waiting_per_model = max_waiting_per_model
        self._watcher = watcher
        self._waiting_s = 0.0
        self._candidates: dict[int, Candidate] = {}  # by number of the submission
        self._num_by_model: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._candidates)

    @property
    def waiting_s(self) -> float:
        """Predicted run time of all that wait, in seconds."""
        return self._waiting_s if self._candidates else 0.0

    def in_arrival_order(self) -> list[Candidate]:
        """All of them. O(n log n)."""
        return sorted(self._candidates.values(), key=lambda each: (each.arrival_s, each.sequence))

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait."""
        self._policy.add(candidate)
        self._candidates[candidate.sequence] = candidate
        self._waiting_s = self.waiting_s + candidate.remaining_s
        if self._watcher is not None:
            self._watcher.add(candidate)
        model = candidate.model
        self._num_by_model[model] = self._num_by_model.get(model, 0) + 1

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more."""
        self._policy.remove(candidate)
        del self._candidates[candidate.sequence]
        self._waiting_s -= candidate.remaining_s
        if self._watcher is not None:
            self._watcher.remove(candidate)
        self._num_by_model[candidate.model] -= 1
        if not self._num_by_model[candidate.model]:
            del self._num_by_model[candidate.model]

    def check_bounds(self, request: Request) -> None:
        """Let one more wait.

        Raises:
            QueueFullError: If too many do already.
            ModelQueueFullError: The same for its model.
        """
        if self._max_waiting is not None and len(self) >= self._max_waiting:
            raise QueueFullError(request.request_id, len(self), self._max_waiting)
        limit = self._max_waiting_per_model
        if limit is not None:
            num_waiting = self._num_by_model.get(request.model, 0)
            if num_waiting >= limit:
                raise ModelQueueFullError(request.request_id, request.model, num_waiting, limit)

    def check_admission(self, candidate: Candidate, now_s: float, boundary_s: float, holder: Candidate | None) -> None:
        """Let a newcomer in, if admission control, which is on, does.

        Args:
            candidate: The newcomer.
            now_s: Current monotonic time.
            boundary_s: When the device can change hands, monotonic seconds.
            holder: Who has it.

        Raises:
            RefusedError: If it could not be on time.
        """
        wait_s = self._policy.predicted_wait_s(candidate, boundary_s, holder)
        if wait_s is not None:
            allowed_s = candidate.deadline_s - now_s - candidate.remaining_s
            raise RefusedError(candidate.request.request_id, wait_s + boundary_s - now_s, allowed_s)

    def refuse(self, now_s: float, boundary_s: float, holder: Candidate | None) -> tuple[Refusal, ...]:
        """Give up, and forget, those that admission control names; arguments as above."""
        refused = []
        for candidate in self._policy.refuse(boundary_s, holder):
            self.remove(candidate)
            allowed_s = candidate.deadline_s - now_s - candidate.remaining_s
            wait_s = max(boundary_s - now_s, allowed_s)
            error = RefusedError(candidate.request.request_id, wait_s, allowed_s)
            refused.append(Refusal(request=candidate.request, error=error))
        return tuple(refused)
