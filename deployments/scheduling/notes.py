"""What the allocator notes down about a traced request, as nothing else remembers it afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Reason = Literal["alone", "order", "promoted", "late"]
"""Why a request was granted the device: nobody else wanted it; the policy's order; the starvation bound; the policy had
set it aside, as it could not be on time, and its turn hurt nobody."""


@dataclass(slots=True, kw_only=True)
class Notes:
    """Notes about one request.

    Attributes:
        predicted_wait_s: How long it would wait for its first turn, as predicted when it came, in seconds.
        reasons: Why it was granted each of its turns, in order.
    """

    predicted_wait_s: float = 0.0
    reasons: list[Reason] = field(default_factory=list)
