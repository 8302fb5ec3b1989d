"""What keeps the live benchmark from going on, one class per situation."""

from __future__ import annotations

from benchmarks.load.errors import LoadError


class SubjectError(LoadError):
    """The configuration cannot be measured as one device."""


class OutputsDifferError(LoadError):
    """A competitor answers something else than plain ONNX Runtime."""


class SettingChangedError(LoadError):
    """The folder of results holds rounds of another setting."""


class PeerMissingError(LoadError):
    """A peer's environment is not installed."""
