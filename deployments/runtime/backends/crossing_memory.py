"""Memory for the tensors that cross the cuts of one request, laid out once for all requests of a model.

Two tensors share a place unless both are alive while some block runs. That keeps the memory of a request in flight
small, and what a block reads is more likely still in the caches. Fresh memory costs a page fault for every 4 KiB, a
slow one on a virtual machine whose host gives it only then: it is touched here, in pages as large as there are.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_ALIGNMENT = 64
"""Bytes; what ONNX Runtime gives its own tensors."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A tensor that crosses cuts.

    Attributes:
        num_bytes: Its size, at least 1.
        first: The block that writes it.
        last: The last block that reads it, at least ``first``.
    """

    num_bytes: int
    first: int
    last: int

    def overlaps(self, other: Extent) -> bool:
        """Whether both are alive while some block runs."""
        return self.first <= other.last and other.first <= self.last


def lay_out(extents: Sequence[Extent]) -> tuple[list[int], int]:
    """Where each tensor lies, in bytes from the start, and the bytes of all; the largest first, where it fits best.

    The greedy-by-size method of Pisarchyk and Lee, "Efficient memory management for deep neural net inference" (2020).
    """
    offsets = [0] * len(extents)
    placed: list[int] = []
    for index in sorted(range(len(extents)), key=lambda each: -extents[each].num_bytes):
        extent = extents[index]
        end, best = 0, None
        for other in sorted((o for o in placed if extent.overlaps(extents[o])), key=lambda each: offsets[each]):
            gap = offsets[other] - end
            if gap >= extent.num_bytes and (best is None or gap < best[0]):
                best = gap, end
            end = max(end, offsets[other] + _rounded(extents[other].num_bytes))
        offsets[index] = end if best is None else best[1]
        placed.append(index)
    return offsets, max((offsets[index] + _rounded(extents[index].num_bytes) for index in placed), default=0)


def touched_memory(num_bytes: int) -> np.ndarray:
    """So many bytes (uint8), which the system has really given."""
    if num_bytes == 0:
        return np.empty(0, np.uint8)
    memory = mmap.mmap(-1, num_bytes)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    touched: np.ndarray = np.frombuffer(memory, np.uint8)
    touched[:: mmap.PAGESIZE] = 0
    return touched


def _rounded(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
