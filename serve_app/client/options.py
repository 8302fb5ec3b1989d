"""What a request may ask for beside its inputs; checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import numpy.typing as npt

from serve_app.protocol.errors import ParameterError

Arrays = Mapping[str, npt.NDArray[Any]]
Outputs = dict[str, npt.NDArray[Any]]

_ANSWER_GRACE_S = 10.0
"""How long a client waits for the server's own word on a time-out before it gives up by itself."""


class InferOptions(TypedDict, total=False):
    """Keyword arguments of ``infer``, all of them optional.

    Attributes:
        priority: Level, 1 is the highest; None: the model's default.
        timeout_s: Seconds after which the request is given up; None: the model's default.
        deadline_s: Seconds by which the answer is wanted; orders the queue, a late request is still answered; None:
            the time-out if there is one, else by the model's settings.
    """

    priority: int | None
    timeout_s: float | None
    deadline_s: float | None


def wait_limit_s(options: InferOptions) -> float | None:
    """How long the client itself waits for the answer; None: as long as it takes.

    Raises:
        ParameterError: If an option is zero or negative.
    """
    for name, value in options.items():
        if value is not None and not value > 0:  # type: ignore[operator]
            raise ParameterError(f"{name} must be more than 0, not {value!r}")
    timeout_s = options.get("timeout_s")
    return None if timeout_s is None else timeout_s + _ANSWER_GRACE_S
