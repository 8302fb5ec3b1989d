"""The errors that stand for the allocator's refusals: of a replica, and of a request."""

from __future__ import annotations

from deployments.runtime.errors import (
    MemoryBudgetError,
    ProtocolMismatchError,
    RuntimeServingError,
    SettingsConflictError,
)
from deployments.runtime.messages import Refused, Rejected
from deployments.scheduling.errors import (
    DuplicateRequestError,
    InvalidRequestError,
    ModelQueueFullError,
    QueueFullError,
    RefusedError,
    SchedulingError,
)

_OF_REQUEST: dict[str, type[SchedulingError]] = {
    kind.__name__: kind
    for kind in (QueueFullError, ModelQueueFullError, RefusedError, InvalidRequestError, DuplicateRequestError)
}
_OF_REPLICA: dict[str, type[RuntimeServingError]] = {
    "version": ProtocolMismatchError,
    "settings": SettingsConflictError,
    "memory": MemoryBudgetError,
}


def error_of_request(rejected: Rejected) -> SchedulingError:
    """Why a request was not taken."""
    return _OF_REQUEST[rejected.error](*rejected.error_args)


def error_of_replica(refused: Refused) -> RuntimeServingError:
    """Why a replica was not taken."""
    return _OF_REPLICA[refused.reason](refused.message)
