"""Plain ONNX Runtime on the device, with nothing else going on: how long each model takes, and what it answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.load.inputs import Arrays
from benchmarks.serve.errors import OutputsDifferError
from benchmarks.serve.peers.spec import PeerSpec, run_session
from split_tool.sessions import Device

_MIN_REPEATS = 7
_MIN_TIME_S = 0.5
# Another order of additions moves the last digits of a float32; anything above is another answer.
_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One model alone.

    Attributes:
        isolated_s: Median time of the whole model on the device, in seconds.
        outputs: Its answer to the benchmark's request.
    """

    isolated_s: float
    outputs: Arrays


def measure_references(spec: PeerSpec, inputs: Mapping[str, Arrays]) -> dict[str, Reference]:
    """Every model alone, on the cores that the device has; takes a second or more each."""
    with ThreadPoolExecutor(1, initializer=spec.pin) as pool:
        return {model: pool.submit(_measure, spec, model, inputs[model]).result() for model in spec.models}


def largest_difference(wanted: Arrays, found: Arrays, *, who: str) -> float:
    """The largest difference between two answers, in units of the largest value; 0.0 where they are bit-identical.

    Raises:
        OutputsDifferError: If they are not the same answer.
    """
    if set(wanted) != set(found):
        raise OutputsDifferError(f"{who} answers with {sorted(found)}, plain ONNX Runtime with {sorted(wanted)}")
    largest = max((_difference(array, found[name]) for name, array in wanted.items()), default=0.0)
    if not largest <= _TOLERANCE:
        raise OutputsDifferError(
            f"{who} answers something else than plain ONNX Runtime: the largest difference is {largest:.2g} of the "
            "largest value"
        )
    return largest


def _difference(wanted: npt.NDArray[Any], found: npt.NDArray[Any]) -> float:
    if wanted.shape != found.shape or wanted.dtype.kind != found.dtype.kind:
        return np.inf
    if np.array_equal(wanted, found, equal_nan=wanted.dtype.kind == "f"):
        return 0.0
    if wanted.dtype.kind != "f":
        return np.inf
    return float(np.max(np.abs(wanted - found)) / max(float(np.max(np.abs(wanted))), 1e-30))


def _measure(spec: PeerSpec, model: str, inputs: Arrays) -> Reference:
    session = spec.open_session(model)
    outputs = run_session(session, inputs)
    clock = Device(provider=spec.provider, num_threads=spec.session_threads).clock
    times_s: list[float] = []
    while len(times_s) < _MIN_REPEATS or sum(times_s) < _MIN_TIME_S:
        start_s = clock()
        run_session(session, inputs)
        times_s.append(clock() - start_s)
    return Reference(isolated_s=median(times_s), outputs=outputs)


def allowed_cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
