"""``fifo``: first come, first served, to the end. The yardstick: no priorities, no starvation bound."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.notes import Reason
from deployments.scheduling.policies.keyed_order import KeyedOrder, smallest_key
from deployments.scheduling.policies.options import NoOptions


def _arrival_s(candidate: Candidate) -> float:
    return candidate.arrival_s


def should_hold(waiting: Sequence[Candidate], holder: Candidate | None, now_s: float) -> Candidate | None:
    """The holder; without one, who arrived first."""
    return smallest_key(waiting, holder, _arrival_s, is_preemptive=False)


class Fifo:
    """``should_hold`` kept up to date; every operation is O(log n)."""

    __slots__ = ("_order",)

    has_admission = False

    def __init__(self) -> None:
        self._order = KeyedOrder(_arrival_s, is_preemptive=False)

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait."""
        self._order.add(candidate)

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more."""
        self._order.remove(candidate)

    def progress(self, candidate: Candidate, ran_s: float, now_s: float) -> None:
        """Nothing depends on it."""

    def choose(self, now_s: float, holder: Candidate | None) -> Candidate | None:
        """The holder; without one, who arrived first."""
        return self._order.choose(now_s, holder)

    def is_worth(self, challenger: Candidate, holder: Candidate, now_s: float, cost_s: float) -> bool:
        """No preemption is worth anything here."""
        return False

    def reason(self, candidate: Candidate, now_s: float) -> Reason:
        """The order."""
        return "order"

    def next_change_s(self, now_s: float, holder: Candidate | None) -> float | None:
        """Never."""
        return None

    def predicted_wait_s(self, candidate: Candidate, now_s: float, holder: Candidate | None) -> float | None:
        """Everybody may come in."""
        return None

    def refuse(self, now_s: float, holder: Candidate | None) -> tuple[Candidate, ...]:
        """Nobody is given up."""
        return ()


def make_fifo(options: NoOptions) -> Fifo:
    """The policy; ``should_hold`` decides."""
    return Fifo()
