"""Everything this package refuses, one class per situation."""

from __future__ import annotations


class OpenClError(Exception):
    """Base of all errors of this package; the message says what to do."""


class NoOpenClDeviceError(OpenClError):
    """There is no OpenCL device, or not the one asked for."""


class CompiledPlanNotFoundError(OpenClError):
    """There are no compiled blocks beside the split plan, or none for the target asked for."""


class CompiledPlanInvalidError(OpenClError):
    """The compiled blocks cannot be read, or belong to another split plan or schema version."""
