"""Everything the scheduling core refuses, one class per situation.

The constructor arguments are the exception's ``args``, so each error survives pickling (it crosses Ray).
"""

from __future__ import annotations

from collections.abc import Sequence


class SchedulingError(Exception):
    """Base of all errors of this package; an illegal call raises one and changes nothing."""


class InvalidRequestError(SchedulingError):
    """A field of a request has a value that cannot be scheduled."""

    def __init__(self, request_id: str, problem: str) -> None:
        super().__init__(request_id, problem)
        self.request_id = request_id
        self.problem = problem

    def __str__(self) -> str:
        return f"request {self.request_id!r} cannot be scheduled: {self.problem}"


class DuplicateRequestError(SchedulingError):
    """A request with this identity waits or runs already."""

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id

    def __str__(self) -> str:
        return f"request {self.request_id!r} is known already: give every request its own identity"


class UnknownRequestError(SchedulingError):
    """No request with this identity waits or runs; it may have ended."""

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id

    def __str__(self) -> str:
        return f"request {self.request_id!r} neither waits nor runs: it was never submitted, or has ended"


class NotHolderError(SchedulingError):
    """The caller acts as holder of the device and is not."""

    def __init__(self, request_id: str, holders: Sequence[str]) -> None:
        super().__init__(request_id, tuple(holders))
        self.request_id = request_id
        self.holders = tuple(holders)

    def __str__(self) -> str:
        held = ", ".join(repr(holder) for holder in self.holders) or "nobody"
        return f"request {self.request_id!r} does not hold the device ({held} does): wait for its grant"


class TwoHoldersError(SchedulingError):
    """After a restart a second replica says it holds the device; one of the two must stop."""

    def __init__(self, request_id: str, holder: str) -> None:
        super().__init__(request_id, holder)
        self.request_id = request_id
        self.holder = holder

    def __str__(self) -> str:
        return (
            f"request {self.request_id!r} is announced as holder, but {self.holder!r} holds the device: "
            "stop the replica that announced it, then announce it as waiting"
        )


class ProgressError(SchedulingError):
    """A holder reports a number of finished blocks, or block times, that do not fit its request."""

    def __init__(self, request_id: str, problem: str) -> None:
        super().__init__(request_id, problem)
        self.request_id = request_id
        self.problem = problem

    def __str__(self) -> str:
        return f"request {self.request_id!r}: {self.problem}"


class QueueFullError(SchedulingError):
    """As many requests as allowed wait for the device already."""

    def __init__(self, request_id: str, num_waiting: int, max_waiting: int) -> None:
        super().__init__(request_id, num_waiting, max_waiting)
        self.request_id = request_id
        self.num_waiting = num_waiting
        self.max_waiting = max_waiting

    def __str__(self) -> str:
        return (
            f"request {self.request_id!r} refused: {self.num_waiting} requests wait for the device, "
            f"allowed are {self.max_waiting}: try again later, or raise max_waiting"
        )


class ModelQueueFullError(SchedulingError):
    """As many requests of this model as allowed wait for the device already."""

    def __init__(self, request_id: str, model: str, num_waiting: int, max_waiting: int) -> None:
        super().__init__(request_id, model, num_waiting, max_waiting)
        self.request_id = request_id
        self.model = model
        self.num_waiting = num_waiting
        self.max_waiting = max_waiting

    def __str__(self) -> str:
        return (
            f"request {self.request_id!r} refused: {self.num_waiting} requests of model {self.model!r} wait, "
            f"allowed are {self.max_waiting}: try again later, or raise max_waiting_per_model"
        )


class RefusedError(SchedulingError):
    """Admission control: the request could not be on time, or only by making another late."""

    def __init__(self, request_id: str, predicted_wait_s: float, allowed_wait_s: float) -> None:
        super().__init__(request_id, predicted_wait_s, allowed_wait_s)
        self.request_id = request_id
        self.predicted_wait_s = predicted_wait_s
        self.allowed_wait_s = allowed_wait_s

    def __str__(self) -> str:
        return (
            f"request {self.request_id!r} refused: it would wait {self.predicted_wait_s * 1e3:.1f} ms for the "
            f"device, its deadline allows {max(0.0, self.allowed_wait_s) * 1e3:.1f} ms: "
            "try again after that time, or give it a later deadline"
        )


class WaitTimeoutError(SchedulingError):
    """The request waited until its time limit and never got the device; raised by the shell."""

    def __init__(self, request_id: str, waited_s: float) -> None:
        super().__init__(request_id, waited_s)
        self.request_id = request_id
        self.waited_s = waited_s

    def __str__(self) -> str:
        return f"request {self.request_id!r} gave up after waiting {self.waited_s:.3f} s for the device"


class UnknownPolicyError(SchedulingError):
    """No policy, or no mode, has this name."""

    def __init__(self, kind: str, name: str, allowed: Sequence[str]) -> None:
        super().__init__(kind, name, tuple(allowed))
        self.kind = kind
        self.name = name
        self.allowed = tuple(allowed)

    def __str__(self) -> str:
        return f"unknown {self.kind} {self.name!r}: allowed are {', '.join(self.allowed)}"


class PolicyOptionError(SchedulingError):
    """A policy has no such option, or the option no such value."""

    def __init__(self, policy: str, option: str, value: object, allowed: str) -> None:
        super().__init__(policy, option, value, allowed)
        self.policy = policy
        self.option = option
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        return f"policy {self.policy!r}, option {self.option!r} = {self.value!r}: allowed {self.allowed}"
