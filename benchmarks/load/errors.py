"""What keeps a benchmark from being run, one class per situation."""

from __future__ import annotations


class LoadError(Exception):
    """Base of all errors of this package; the message says what to do."""


class ServerUnreachableError(LoadError):
    """Nothing answers at the URL, or not as the protocol says."""


class ServerStartError(LoadError):
    """The server that was to be measured did not become ready."""


class ServerRunningError(LoadError):
    """A server answers already where one was to be started."""


class IsolatedTimeUnknownError(LoadError):
    """Neither the server nor a plan folder says how long a model takes alone."""


class ModelFailedError(LoadError):
    """A model answered the very first request with an error."""


class TraceModelUnknownError(LoadError):
    """A recording has a model that is not among those to be loaded."""
