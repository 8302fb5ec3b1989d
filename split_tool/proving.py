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
from split_tool.sessions import Device, open_session, session_options
from split_tool.source import Source
from split_tool.values import from_ort
from split_tool.verify import Comparison, with_seeds

CAUSE_OPTIMISED = "the optimised graph, loaded again block by block, runs other kernels for some operators"
CAUSE_USER = "each block is optimised alone: operators fused across a cut in the whole model are rounded between"
CAUSE_RANDOM = "random operators draw in another order"


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
    """Compare a chain of blocks with the whole model.

    Args:
        source: The model.
        whole: It, loaded with default optimisation as its user would.
        files: The blocks, in run order.
        device: Where both run.
        feeds: The samples.
        seed: Seed of the first sample, for the record.
        is_optimised: The blocks come from an optimised graph.

    Raises:
        NotEquivalentError: If they differ by more than the dtype allows.
    """
    functions = Functions(source.model.functions)
    is_random = any(functions.is_random(node) for node in source.model.graph.node)
    blocks: Sequence[Path | onnx.ModelProto] = files
    if is_random:
        options = session_options(device, optimise=False)
        whole = open_session(with_seeds(source.model), device, options, external_folder=source.folder)
        blocks = [with_seeds(onnx.load(file, load_external_data=False)) for file in files]
    chain = Chain(blocks, device, is_optimised=is_optimised, external_folder=files[0].parent if is_random else None)
    names = list(dict.fromkeys(spec.name for spec in source.outputs))
    comparison = Comparison.of(source.model, source.outputs)
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
