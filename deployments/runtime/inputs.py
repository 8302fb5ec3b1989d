"""Are these arrays what the model takes? Asked before a request may wait for the device."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from deployments.runtime.errors import InputRefusedError
from deployments.runtime.values import numpy_dtype
from split_tool.plan import TensorSpec

_LARGEST_SAMPLE = 1 << 26


def check_inputs(inputs: Mapping[str, np.ndarray], specs: Mapping[str, TensorSpec]) -> None:
    """Raise unless ``inputs`` has one fitting array for each of ``specs`` and no other.

    Raises:
        InputRefusedError: It names the input, what was found, and what is allowed.
    """
    for name, array in inputs.items():
        spec = specs.get(name)
        if spec is None:
            raise InputRefusedError(
                f"the model has no input {name!r}; it takes {', '.join(map(repr, specs)) or 'none'}"
            )
        if not isinstance(array, np.ndarray):
            raise InputRefusedError(f"input {name!r} is a {type(array).__name__}: give a numpy array")
        if dtype_name(array.dtype) != spec.dtype:
            raise InputRefusedError(f"input {name!r} has dtype {array.dtype}, the model takes {spec.dtype}")
        if spec.dtype == "string" and not all(_is_text(item) for item in array.reshape(-1).tolist()):
            raise InputRefusedError(f"input {name!r} holds other things than str or UTF-8 bytes")
        if not _is_shape_allowed(array.shape, spec.shape):
            allowed = "?" if spec.shape is None else list(spec.shape)
            raise InputRefusedError(f"input {name!r} has shape {list(array.shape)}, the model takes {allowed}")
    if missing := [name for name, spec in specs.items() if name not in inputs and spec.kind != "optional"]:
        raise InputRefusedError(f"missing input {', '.join(map(repr, missing))}")


@lru_cache(64)
def dtype_name(dtype: np.dtype) -> str:
    """Element type as ONNX spells it in lower case; numpy takes 20 us to say it, too long for each request."""
    return "string" if dtype.kind in "OUS" else dtype.name


def sample_inputs(specs: tuple[TensorSpec, ...]) -> dict[str, np.ndarray] | None:
    """Zeros for every input, dynamic axes as 1; None where a rank is unknown or a value would be no tensor."""
    samples = {}
    for spec in specs:
        if spec.kind != "tensor" or spec.shape is None:
            return None
        shape = tuple(axis if isinstance(axis, int) else 1 for axis in spec.shape)
        if np.prod(shape, dtype=np.int64) > _LARGEST_SAMPLE:
            return None
        samples[spec.name] = (
            np.full(shape, "", object) if spec.dtype == "string" else np.zeros(shape, numpy_dtype(spec.dtype))
        )
    return samples


def _is_text(item: object) -> bool:
    if not isinstance(item, bytes):
        return isinstance(item, str)
    try:
        item.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_shape_allowed(shape: tuple[int, ...], allowed: tuple[int | str | None, ...] | None) -> bool:
    if allowed is None or shape == allowed:
        return True
    return len(shape) == len(allowed) and all(
        not isinstance(wanted, int) or wanted == found for found, wanted in zip(shape, allowed, strict=True)
    )
