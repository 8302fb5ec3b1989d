"""What the allocator asks of a policy."""

from __future__ import annotations

from typing import Protocol

from deployments.scheduling.candidate import Candidate
from deployments.scheduling.notes import Reason


class Order(Protocol):
    """An order among the requests of one priority level.

    Its meaning is a stateless function of (waiting, holder, now); an instance keeps what makes it fast. While a
    request is counted among the waiting, nothing about it changes; a holder is not counted, it is an argument.
    """

    @property
    def changes_with_time(self) -> bool:
        """True if ``choose`` may change its answer although nothing happened but time."""

    def __len__(self) -> int: ...

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait."""

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more."""

    def choose(self, now_s: float, holder: Candidate | None) -> Candidate | None:
        """Who should hold the device at ``now_s``, one of the waiting or the holder; None only if there is nobody."""

    def is_worth(self, challenger: Candidate, holder: Candidate, now_s: float, cost_s: float) -> bool:
        """True if giving ``challenger`` the device before ``holder`` ends is worth ``cost_s`` seconds of it."""

    def is_late(self, candidate: Candidate, now_s: float) -> bool:
        """True if the order has set this waiting request aside, as it cannot be on time."""


class Policy(Protocol):
    """Who should hold the device: an order, with priorities and the starvation bound where it has them."""

    @property
    def has_admission(self) -> bool:
        """False: ``predicted_wait_s`` and ``refuse`` let everybody in, there is no need to ask."""

    def add(self, candidate: Candidate) -> None:
        """A request begins to wait."""

    def remove(self, candidate: Candidate) -> None:
        """A request waits no more: granted, cancelled or gone."""

    def progress(self, candidate: Candidate, ran_s: float, now_s: float) -> None:
        """The holder had the device for another ``ran_s`` seconds, until ``now_s``."""

    def choose(self, now_s: float, holder: Candidate | None) -> Candidate | None:
        """Who should hold the device at ``now_s``, one of the waiting or the holder; None only if there is nobody."""

    def is_worth(self, challenger: Candidate, holder: Candidate, now_s: float, cost_s: float) -> bool:
        """True if giving ``challenger`` the device before ``holder`` ends is worth ``cost_s`` seconds of it."""

    def reason(self, candidate: Candidate, now_s: float) -> Reason:
        """Why this waiting request is chosen at ``now_s``."""

    def next_change_s(self, now_s: float, holder: Candidate | None) -> float | None:
        """From when on ``choose`` may answer otherwise although nothing happened but time; None: never."""

    def predicted_wait_s(self, candidate: Candidate, now_s: float, holder: Candidate | None) -> float | None:
        """Admission control: None if the request may come in, otherwise how long it would wait, in seconds."""

    def refuse(self, now_s: float, holder: Candidate | None) -> tuple[Candidate, ...]:
        """Admission control: waiting requests to be given up, as they cannot be on time any more."""
