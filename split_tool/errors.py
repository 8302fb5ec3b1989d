"""Everything the split tool refuses, one class per situation."""

from __future__ import annotations


class SplitToolError(Exception):
    """Base of all errors of this package; the message says what to do."""


class PlanNotFoundError(SplitToolError):
    """There is no split plan in the folder."""


class PlanInvalidError(SplitToolError):
    """The plan file cannot be read, or has another schema version."""


class PlanMismatchError(SplitToolError):
    """A file beside the plan is not the one that the plan was made with."""


class ModelRefusedError(SplitToolError):
    """The model cannot be split (or not even loaded); nothing was written."""


class NotEquivalentError(SplitToolError):
    """The chain of blocks does not give what the whole model gives."""
