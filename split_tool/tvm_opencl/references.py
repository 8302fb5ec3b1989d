"""What ONNX Runtime computes at every cut, for one random input: the values that compiled blocks are checked with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from split_tool.chain import Chain, feeds_to_ort
from split_tool.errors import one_line
from split_tool.plan import SplitPlan
from split_tool.samples import find_sampler
from split_tool.sessions import Device
from split_tool.values import Feeds

SEED = 1


def reference_values(plan: SplitPlan, folder: Path) -> dict[str, np.ndarray]:
    """The value of each tensor of numbers that is input, output or crosses a cut.

    Raises:
        InputsNotFoundError: If the model accepts no generated input.
        ModelRefusedError: If ONNX Runtime cannot load a block.
    """
    files = [folder / block.file for block in plan.blocks]
    chain = Chain(files, Device(num_threads=plan.measured_on.num_threads), is_optimised=False)
    specs = {spec.name: spec for spec in (*plan.inputs, *plan.outputs)}
    specs |= {spec.name: spec for cut in plan.cuts for spec in cut.tensors}
    names = [name for name, spec in specs.items() if spec.kind == "tensor" and spec.dtype not in ("string", "bfloat16")]

    def accepts(feeds: Feeds) -> str | None:
        try:
            chain.run(feeds_to_ort(feeds, plan.inputs), names)
        except Exception as error:  # the runtime raises several unrelated classes
            return one_line(error)
        return None

    sampler = find_sampler(plan.inputs, plan.request.input_shapes, accepts)
    values: Mapping[str, object] = chain.run(feeds_to_ort(sampler.feeds(SEED), plan.inputs), names)
    return {name: np.array(value.numpy()) for name, value in values.items()}  # type: ignore[attr-defined]
