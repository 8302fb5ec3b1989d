"""Proof that the chain of blocks gives what the whole model gives, on random inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper

from split_tool.errors import NotEquivalentError
from split_tool.plan import Proof, TensorSpec, Tolerance
from split_tool.scope import draws_random, nodes_within
from split_tool.source import tensors_of

RELATIVE_TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 4e-2}
"""What floats may differ by where they are not bit-identical; absolute: a tenth of it times the largest value."""

QUANTISED_TOLERANCE = 0.1
"""The same for quantised models: one step of a quantiser is worth more than any rounding of floats."""

QUANTISED_OPERATORS = (
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
    "ConvInteger",
    "DynamicQuantizeMatMul",
    "MatMulNBits",
)


def coarsest_float(model: ModelProto) -> str | None:
    """The least precise of float16 and bfloat16 that the model stores or casts to; None if it uses neither.

    Its rounding decides how far results may differ, whatever type the outputs have.
    """
    used = {tensor.data_type for tensor in tensors_of(model)}
    used |= {value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    used |= {a.i for node in nodes_within(nodes) if node.op_type == "Cast" for a in node.attribute if a.name == "to"}
    for dtype, number in (("bfloat16", TensorProto.BFLOAT16), ("float16", TensorProto.FLOAT16)):
        if number in used:
            return dtype
    return None


def is_quantised(nodes: Iterable[NodeProto]) -> bool:
    """True if some node, at any depth, computes with quantised values."""
    return any(n.op_type in QUANTISED_OPERATORS or n.op_type.startswith("QLinear") for n in nodes_within(nodes))


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Compares outputs of chain and whole, sample after sample, and remembers the largest difference.

    Attributes:
        outputs: The model's outputs.
        is_quantised: Quantised models get the wider tolerance.
        coarsest: See ``coarsest_float``; its tolerance counts where it is the wider one.
        max_abs: Largest absolute difference so far.
        max_rel: The same relative to the whole model's value.
        num_samples: Samples compared.
        is_identical: Every value so far was bit-identical.
    """

    outputs: Sequence[TensorSpec]
    is_quantised: bool
    coarsest: str | None = None
    max_abs: float = 0.0
    max_rel: float = 0.0
    num_samples: int = 0
    is_identical: bool = True
    tolerances: dict[str, Tolerance] = field(default_factory=dict)

    @classmethod
    def of(cls, model: ModelProto, outputs: Sequence[TensorSpec]) -> Comparison:
        """The comparison for a model, which gets the tolerance of the operators and types that it uses."""
        nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
        return cls(outputs=outputs, is_quantised=is_quantised(nodes), coarsest=coarsest_float(model))

    def add(self, whole: Sequence[Any], chain: Sequence[Any]) -> None:
        """Compare one sample.

        Raises:
            NotEquivalentError: If an output differs by more than its dtype's tolerance, or in type or shape.
        """
        self.num_samples += 1
        for spec, expected, got in zip(self.outputs, whole, chain, strict=True):
            self._compare(spec, expected, got)

    def proof(self, *, seed: int, cause: str) -> Proof:
        """The proof for the plan; ``cause`` says why the values are not bit-identical, if they are not."""
        return Proof(
            verdict="bit-identical" if self.is_identical else "within-tolerance",
            num_samples=self.num_samples,
            seed=seed,
            max_abs_difference=self.max_abs,
            max_rel_difference=self.max_rel,
            tolerances=tuple(
                Tolerance(dtype=d, rtol=0.0, atol=0.0) if self.is_identical else self.tolerances[d]
                for d in dict.fromkeys(spec.dtype for spec in self.outputs)
                if self.is_identical or d in self.tolerances
            ),
            cause=None if self.is_identical else cause,
        )

    def _compare(self, spec: TensorSpec, expected: Any, got: Any) -> None:
        if expected is None or got is None:
            if expected is not got:
                raise NotEquivalentError(f"output {spec.name!r} is empty in one of chain and whole")
            return
        if isinstance(expected, list):
            if len(expected) != len(got):
                raise NotEquivalentError(f"sequence {spec.name!r}: whole {len(expected)} items, chain {len(got)}")
            for item_expected, item_got in zip(expected, got, strict=True):
                self._compare(spec, item_expected, item_got)
            return
        if expected.dtype != got.dtype or expected.shape != got.shape:
            raise NotEquivalentError(
                f"output {spec.name!r}: whole gives {expected.dtype} {expected.shape}, chain {got.dtype} {got.shape}"
            )
        if _is_identical(expected, got):
            return
        self.is_identical = False
        self._compare_numbers(spec, expected, got)

    def _compare_numbers(self, spec: TensorSpec, expected: npt.NDArray[Any], got: npt.NDArray[Any]) -> None:
        if expected.dtype.kind not in "fc" and not (self.is_quantised and expected.dtype.kind in "iu"):
            raise NotEquivalentError(f"output {spec.name!r} ({spec.dtype}) differs between chain and whole")
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        one, two = expected.astype(wide), got.astype(wide)
        both_nan = np.isnan(one) & np.isnan(two)
        with np.errstate(invalid="ignore"):
            difference = np.where(both_nan | (one == two), 0.0, np.abs(one - two))
        if not np.isfinite(difference).all():
            raise NotEquivalentError(f"output {spec.name!r}: NaN or infinity in only one of chain and whole")
        size = np.abs(one[np.isfinite(one)])
        rtol = max(RELATIVE_TOLERANCES.get(spec.dtype, 1e-4), RELATIVE_TOLERANCES.get(self.coarsest or "", 0.0))
        rtol = QUANTISED_TOLERANCE if self.is_quantised else rtol
        atol = rtol * (1.0 if self.is_quantised else 0.1) * float(size.max(initial=0.0))
        previous = self.tolerances.get(spec.dtype)
        self.tolerances[spec.dtype] = Tolerance(
            dtype=spec.dtype, rtol=rtol, atol=max(atol, previous.atol if previous else 0.0)
        )
        self.max_abs = max(self.max_abs, float(difference.max(initial=0.0)))
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(difference > 0, difference / np.abs(one), 0.0)
        self.max_rel = max(self.max_rel, float(np.where(np.isfinite(relative), relative, 0.0).max(initial=0.0)))
        if (difference > atol + rtol * np.where(np.isfinite(one), np.abs(one), 0.0)).any():
            raise NotEquivalentError(
                f"output {spec.name!r} differs by up to {difference.max():.3g} between chain and whole, more than "
                f"{spec.dtype} may (rtol {rtol:g}, atol {atol:.3g}): this graph must not be cut here"
            )


def _is_identical(expected: npt.NDArray[Any], got: npt.NDArray[Any]) -> bool:
    if expected.dtype.kind in "fc":
        return expected.tobytes() == got.tobytes() or bool(np.array_equal(expected, got, equal_nan=True))
    return bool(np.array_equal(expected, got))


def with_seeds(model: ModelProto) -> ModelProto:
    """A copy whose random operators draw from fixed seeds, the same ones in the whole model and in its blocks.

    The runtime otherwise seeds each by its place in the graph, which cutting changes. The seed comes from the name of
    the value that the operator makes.
    """
    seeded = ModelProto()
    seeded.CopyFrom(model)
    nodes = [*seeded.graph.node, *(node for function in seeded.functions for node in function.node)]
    for node in nodes_within(nodes):
        if draws_random(node) and not any(a.name == "seed" for a in node.attribute):
            seed = sum(ord(letter) * (place + 1) for place, letter in enumerate(node.output[0])) % 10_000 + 1
            is_dropout = "Dropout" in node.op_type
            node.attribute.append(helper.make_attribute("seed", seed if is_dropout else float(seed)))
    return seeded
