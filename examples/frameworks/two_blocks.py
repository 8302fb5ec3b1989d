"""Splits a model that a framework has exported, and compares its chain with the framework's own output."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from split_tool import run_chain, split

FloatArray = NDArray[np.float32]
FOLDER = Path("out/frameworks")
MAX_REL_ERROR = 1e-5


class OutputsDifferError(Exception):
    """The chain does not give what the framework gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What a framework has exported.

    Attributes:
        model: The ONNX file: one input, one output, both with an open first axis.
        sample: An input, float32, shape (batch, ...).
        output: What the framework itself gives for it, float32, shape (batch, classes).
    """

    model: Path
    sample: FloatArray
    output: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What came out.

    Attributes:
        plan_folder: Where the split model lies.
        num_blocks: Its blocks.
        rel_error: Largest difference over largest value, between the chain and the framework.
    """

    plan_folder: Path
    num_blocks: int
    rel_error: float


def split_and_compare(exported: Exported) -> Compared:
    """Splits the file in two and compares; the sample and the framework's output stay in ``sample.npz`` beside it.

    Raises:
        OutputsDifferError: If the two differ by more than ``MAX_REL_ERROR``.
        SplitToolError: If the model cannot be split.
    """
    folder = exported.model.with_suffix("")
    np.savez(exported.model.with_suffix(".npz"), sample=exported.sample, output=exported.output)
    # the user's graph, so that the plan can also be compiled for OpenCL
    plan = split(exported.model, folder, blocks=2, graph="user", force=True, budget_s=0.1)
    (output,) = run_chain(plan, folder, {plan.inputs[0].name: exported.sample})
    rel_error = float(np.abs(output - exported.output).max() / np.abs(exported.output).max())
    if not rel_error <= MAX_REL_ERROR:
        raise OutputsDifferError(
            f"{folder}: the chain differs from the framework by {rel_error:.1e} of the largest value"
        )
    return Compared(plan_folder=folder, num_blocks=len(plan.blocks), rel_error=rel_error)


def main(framework: str, export: Callable[[Path], Exported]) -> None:
    """Command line of an example: exports into ``--out``, splits, compares, prints one line."""
    parser = argparse.ArgumentParser(description=f"A tiny {framework} model, split in two blocks.")
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="FOLDER", help=f"default {FOLDER}")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    compared = split_and_compare(export(out))
    print(
        f"{framework}: {compared.num_blocks} blocks in {compared.plan_folder}, "
        f"relative error to the framework's own output {compared.rel_error:.1e}"
    )
