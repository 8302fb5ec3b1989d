"""Runs chain and whole model on the same inputs and compares them; random operators with the same seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

from split_tool.chain import Chain, feeds_to_ort
from split_tool.plan import Proof
from split_tool.scope import Functions
from split_tool.search import Trial
from split_tool.sessions import Device, open_session, session_options
from split_tool.source import Source
from split_tool.values import from_ort
from split_tool.verify import Comparison, coarsest_float, is_quantised, with_seeds

CAUSE_OPTIMISED = "the optimised graph, loaded again block by block, runs other kernels for some operators"
CAUSE_USER = "each block is optimised alone: operators fused across a cut in the whole model are rounded between"
CAUSE_RANDOM = "random operators draw in another order"


def prove(
    source: Source,
    whole: ort.InferenceSession,
    trial: Trial,
    device: Device,
    feeds: Sequence[Mapping[str, Any]],
    *,
    seed: int,
) -> Proof:
    """Compare the trial's blocks with the whole model.

    Args:
        source: The model.
        whole: It, loaded with default optimisation as its user would.
        trial: The blocks.
        device: Where both run.
        feeds: The samples.
        seed: Seed of the first sample, for the record.

    Raises:
        NotEquivalentError: If they differ by more than the dtype allows.
    """
    is_optimised = trial.cutting.target.is_optimised
    return compare(source, whole, trial.files, device, feeds, seed=seed, is_optimised=is_optimised)


def compare(
    source: Source,
    whole: ort.InferenceSession,
    files: Sequence[Path],
    device: Device,
    feeds: Sequence[Mapping[str, Any]],
    *,
    seed: int,
    is_optimised: bool,
) -> Proof:
    """The proof for block files; see ``prove``."""
    functions = Functions(source.model.functions)
    is_random = any(functions.is_random(node) for node in source.model.graph.node)
    blocks: Sequence[Path | onnx.ModelProto] = files
    folder: Path | None = None
    if is_random:
        folder = source.path.resolve().parent
        whole = open_session(
            with_seeds(source.model), device, session_options(device, optimise=False), external_folder=folder
        )
        blocks = [with_seeds(onnx.load(file)) for file in files]
    chain = Chain(blocks, device, is_optimised=is_optimised)
    names = list(dict.fromkeys(spec.name for spec in source.outputs))
    nodes = [*source.model.graph.node, *(node for f in source.model.functions for node in f.node)]
    comparison = Comparison(
        outputs=source.outputs, is_quantised=is_quantised(nodes), coarsest=coarsest_float(source.model)
    )
    for feed in feeds:
        values = feeds_to_ort(feed, source.inputs)
        expected = dict(zip(names, whole.run_with_ort_values(names, values), strict=True))
        got = chain.run(values, names)
        comparison.add(
            [from_ort(expected[spec.name], spec) for spec in source.outputs],
            [from_ort(got[spec.name], spec) for spec in source.outputs],
        )
    cause = CAUSE_RANDOM if is_random else CAUSE_OPTIMISED if is_optimised else CAUSE_USER
    return comparison.proof(seed=seed, cause=cause)
