"""What can go wrong while serving, one class per situation.

Errors cross Ray, so each is built from its message alone (and thereby pickles).
"""

from __future__ import annotations


class RuntimeServingError(Exception):
    """Base of all errors of this package; the message says what to do."""


class DeviceUnavailableError(RuntimeServingError):
    """The device asked for is not there, or ONNX Runtime gave another one."""


class NodesElsewhereError(RuntimeServingError):
    """ONNX Runtime runs nodes of a block on another device than the one asked for."""


class MemoryBudgetError(RuntimeServingError):
    """The model does not fit into what is left of the device's memory."""


class PlanNotForDeviceError(RuntimeServingError):
    """The split plan was made for another execution provider or another processor."""


class LayoutRefusedError(RuntimeServingError):
    """The model cannot be served in the layout that was asked for; the message says why."""


class SettingsConflictError(RuntimeServingError):
    """Two replicas of one device state different settings for it."""


class AllocatorUnreachableError(RuntimeServingError):
    """No allocator answers for the device."""


class ProtocolMismatchError(RuntimeServingError):
    """Replica and allocator speak different versions of the lease protocol."""


class DeadlineExceededError(RuntimeServingError):
    """The request's time-out passed before its result was there; it left the device at the next boundary."""


class BlockFailedError(RuntimeServingError):
    """A block raised while it ran; the request is answered with this error, the device goes on."""


class DataRefusedError(BlockFailedError):
    """ONNX Runtime refused the values of a request while a block ran: an index out of range, axes that do not agree."""


class InputRefusedError(RuntimeServingError):
    """An input array of a Python client does not fit the model's inputs."""


class ReplicaClosedError(RuntimeServingError):
    """The replica shuts down; the request was not run to its end."""


class NeighbourGoneError(RuntimeServingError):
    """Another replica of the model ended before it had answered; the request can run elsewhere."""


class LeaseOverdueError(RuntimeServingError):
    """This replica holds the device longer than a lease may last; Serve shall replace it."""
