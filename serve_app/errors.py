"""What can be wrong before anything is served."""

from __future__ import annotations


class ServeAppError(Exception):
    """Base of all errors of this package; the message says what to do."""


class ConfigError(ServeAppError):
    """The configuration is wrong: the message names the key, the value and what is allowed."""


class RepositoryMissingError(ServeAppError):
    """The model repository is not there; the message has the command that makes it."""


class RepositoryPathError(ServeAppError):
    """A name, or a link in the repository, would lead outside of the model repository."""


class ModelMissingError(ServeAppError):
    """The model, or the version asked for, is not in the repository."""


class LoadFailedError(ServeAppError):
    """A model that was to be loaded did not come up; the message says why."""


class ModelControlOffError(ServeAppError):
    """The gateway has no repository to load models from."""


class PortInUseError(ServeAppError):
    """Somebody else listens on a port that the server needs."""


class StartFailedError(ServeAppError):
    """An application did not come up."""
