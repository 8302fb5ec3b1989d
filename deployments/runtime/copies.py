"""Counts what goes to a device and comes back: inputs before a request's first block, outputs after its last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np


@dataclass(slots=True, kw_only=True)
class Copies:
    """Sums over requests; on a processor, where inputs and outputs are views, the times are next to nothing.

    One thread adds, in place because it does so while it has the device; others may read.

    Attributes:
        num_inputs: Requests whose inputs went to the device.
        input_ns: How long that took in all, in nanoseconds.
        input_bytes: Their size; text counts eight bytes an item.
        num_outputs: Requests whose outputs came back.
        output_ns: How long that took beyond the last block. What ONNX Runtime copies within a block is not in it.
        output_bytes: Their size.
    """

    num_inputs: int = 0
    input_ns: int = 0
    input_bytes: int = 0
    num_outputs: int = 0
    output_ns: int = 0
    output_bytes: int = 0

    def add_inputs(self, arrays: Iterable[np.ndarray], ns: int) -> None:
        """One more request's inputs."""
        self.num_inputs += 1
        self.input_ns += ns
        for array in arrays:
            self.input_bytes += array.nbytes

    def add_outputs(self, arrays: Iterable[np.ndarray], ns: int) -> None:
        """One more request's outputs."""
        self.num_outputs += 1
        self.output_ns += ns
        for array in arrays:
            self.output_bytes += array.nbytes

    def __add__(self, other: Copies) -> Copies:
        return Copies(**{name: getattr(self, name) + getattr(other, name) for name in _NAMES})

    def __sub__(self, earlier: Copies) -> Copies:
        return Copies(**{name: getattr(self, name) - getattr(earlier, name) for name in _NAMES})


_NAMES = tuple(field.name for field in fields(Copies))
