"""What a real device loses and a perfect one does not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Costs of a simulated device.

    Attributes:
        handover_s: Device idle when it changes from one request to another, in seconds.
        cut_overhead_s: Run time that each cut adds to its model, in seconds (see ``SimulatedModel.in_even_blocks``).
        interference: Slow-down in mode ``parallel``, see ``parallel.py``.
        noise_cv: Coefficient of variation of a block's run time (log-normal, mean kept); 0: blocks run as predicted.
        hop_s: Several devices: what it takes to go from the one where a request comes in to another, in seconds.
    """

    handover_s: float = 0.0
    cut_overhead_s: float = 0.0
    interference: float = 1.0
    noise_cv: float = 0.0
    hop_s: float = 0.0


NO_COSTS = Costs()
