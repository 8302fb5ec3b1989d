"""Everything the simulator refuses, one class per situation."""

from __future__ import annotations

from collections.abc import Sequence


class SimulationError(Exception):
    """Base of all errors of this package."""


class UnknownModelError(SimulationError):
    """An arrival names a model that the model table does not have."""

    def __init__(self, model: str, known: Sequence[str]) -> None:
        super().__init__(model, tuple(known))
        self.model = model
        self.known = tuple(known)

    def __str__(self) -> str:
        return f"no times for model {self.model!r}: known are {', '.join(self.known)}; state its times with --models"


class TraceFormatError(SimulationError):
    """A trace file has not the expected form."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class ModelTableError(SimulationError):
    """A model table, or a split setting, cannot be read."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(text, problem)
        self.text = text
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.text!r}: {self.problem}"


class TooManyRequestsError(SimulationError):
    """An exhaustive search was asked for more requests than it can finish."""

    def __init__(self, num_requests: int, max_requests: int) -> None:
        super().__init__(num_requests, max_requests)
        self.num_requests = num_requests
        self.max_requests = max_requests

    def __str__(self) -> str:
        return f"exhaustive search over {self.num_requests} requests, possible are {self.max_requests}"


class ContenderError(SimulationError):
    """A contender's text cannot be read."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(text, problem)
        self.text = text
        self.problem = problem

    def __str__(self) -> str:
        return f"contender {self.text!r}: {self.problem}"
