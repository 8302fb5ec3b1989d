"""Random inputs for a model that nobody explained: shapes, then values that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from split_tool.errors import InputsNotFoundError, OptionError
from split_tool.plan import TensorSpec
from split_tool.values import Feeds

IMAGE_SIDE = 224
SEQUENCE_LENGTH = 16
WORDS = ("alpha", "beta", "gamma", "Grün", "naïve", "x")
INTEGER_LIMITS = (10, 2, 1)
"""Integers are drawn below the first of these that the model accepts: indexes must not leave their table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """Makes feeds of fixed shapes.

    Attributes:
        specs: The model's inputs.
        shapes: Shape of each input by name.
        integer_limit: Integers are drawn from 0 up to this, exclusive.
    """

    specs: tuple[TensorSpec, ...]
    shapes: Mapping[str, tuple[int, ...]]
    integer_limit: int

    def feeds(self, seed: int) -> dict[str, Any]:
        """Feeds for one run, the same for the same seed; optional inputs are given."""
        rng = np.random.default_rng(seed)
        feeds: dict[str, Any] = {}
        for spec in self.specs:
            shape = self.shapes[spec.name]
            if spec.kind == "sequence":
                feeds[spec.name] = [self._array(rng, spec.dtype, shape) for _ in range(2)]
            else:
                feeds[spec.name] = self._array(rng, spec.dtype, shape)
        return feeds

    def _array(self, rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
        if dtype == "string":
            return np.asarray(rng.choice(np.asarray(WORDS, dtype=object), size=shape), dtype=object)
        if dtype == "bool":
            return rng.integers(0, 2, size=shape).astype(bool)
        if dtype in ("uint8", "int8"):
            bounds = np.iinfo(dtype)
            return rng.integers(bounds.min, bounds.max + 1, size=shape).astype(dtype)
        if dtype.startswith(("int", "uint")):
            kind = getattr(ml_dtypes, dtype) if dtype.endswith(("t4", "t2")) else np.dtype(dtype)
            return np.asarray(rng.integers(0, self.integer_limit, size=shape)).astype(kind)
        values = np.asarray(rng.standard_normal(size=shape))
        if dtype in ("complex64", "complex128"):
            return (values + 1j * rng.standard_normal(size=shape)).astype(dtype)
        if dtype in ("float32", "float64", "float16"):
            return values.astype(dtype)
        return values.astype(getattr(ml_dtypes, {"float8e4m3fn": "float8_e4m3fn"}.get(dtype, dtype)))


def find_sampler(
    specs: Sequence[TensorSpec],
    given: Mapping[str, tuple[int, ...]],
    accepts: Callable[[Feeds], str | None],
) -> Sampler:
    """The first sampler whose feeds the model accepts.

    Args:
        specs: The model's inputs.
        given: Shapes that the user wants, by input name.
        accepts: Runs the model once; None, or why it failed.

    Raises:
        OptionError: If a given shape belongs to no input, or contradicts its fixed axes.
        InputsNotFoundError: If no feeds are accepted.
    """
    for name, shape in given.items():
        _check_given(specs, name, shape)
    reason = ""
    for default in _dimension_defaults():
        for limit in INTEGER_LIMITS:
            sampler = Sampler(specs=tuple(specs), shapes=_shapes(specs, given, default), integer_limit=limit)
            failed = accepts(sampler.feeds(0))
            if failed is None:
                return sampler
            reason = reason or failed
    names = ", ".join(f"--input {spec.name}={_shape_text(spec)}" for spec in specs)
    raise InputsNotFoundError(
        f"the model accepts no generated input ({reason}): "
        f"give shapes ({names}) or real inputs (--samples-from FILE.npz)"
    )


def _dimension_defaults() -> Iterator[Callable[[TensorSpec, int], int]]:
    """Ways to choose an axis that the model leaves open, the most likely first."""

    def usual(spec: TensorSpec, axis: int) -> int:
        rank = len(spec.shape or ())
        if axis == 0 or rank == 1:
            return 1 if rank != 1 else 4
        return IMAGE_SIDE if rank == 4 else SEQUENCE_LENGTH

    yield usual
    yield lambda spec, axis: 1 if axis == 0 else 64
    yield lambda spec, axis: 1 if axis == 0 else 512
    yield lambda spec, axis: 1
    yield lambda spec, axis: 512 if axis == 1 and len(spec.shape or ()) == 2 else 1  # pieces of a signal, with state
    yield lambda spec, axis: 256 if axis == 1 and len(spec.shape or ()) == 2 else 1
    yield lambda spec, axis: 2
    yield lambda spec, axis: 8


def _shapes(
    specs: Sequence[TensorSpec], given: Mapping[str, tuple[int, ...]], default: Callable[[TensorSpec, int], int]
) -> dict[str, tuple[int, ...]]:
    """A shape for each input; axes with the same symbol get the same size."""
    sizes: dict[str, int] = {}
    for spec in specs:
        if spec.name in given:
            pairs = zip(spec.shape or (), given[spec.name], strict=False)
            sizes.update({dim: size for dim, size in pairs if isinstance(dim, str)})
    shapes: dict[str, tuple[int, ...]] = {}
    for spec in specs:
        axes: list[int] = []
        for axis, dim in enumerate(spec.shape if spec.shape is not None else ("", "")):
            if isinstance(dim, int):
                axes.append(dim)
            else:
                size = default(spec, axis)
                axes.append(sizes.setdefault(dim, size) if dim else size)
        shapes[spec.name] = given.get(spec.name, tuple(axes))
    return shapes


def _check_given(specs: Sequence[TensorSpec], name: str, shape: tuple[int, ...]) -> None:
    spec = next((spec for spec in specs if spec.name == name), None)
    if spec is None:
        known = ", ".join(spec.name for spec in specs) or "none"
        raise OptionError(f"--input {name}: the model has no such input (it has: {known})")
    if spec.shape is None:
        return
    fits = len(shape) == len(spec.shape) and all(
        not isinstance(dim, int) or dim == wanted for dim, wanted in zip(spec.shape, shape, strict=True)
    )
    if not fits:
        wanted = "x".join(map(str, shape))
        raise OptionError(f"--input {name}={wanted}: the model declares {_shape_text(spec)}")


def _shape_text(spec: TensorSpec) -> str:
    if spec.shape is None:
        return "?"
    return "x".join(str(dim) if dim is not None else "?" for dim in spec.shape)
