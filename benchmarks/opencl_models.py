"""Built-in models compiled for OpenCL: kernels, times and the difference to ONNX Runtime, one line a model.

``python -m benchmarks.opencl_models --target adreno-texture --models squeezenet,resnet50``; needs the extra ``tvm``
and an OpenCL device. On PoCL, which emulates textures in software, the run times say nothing about a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.random_weights import write_random
from deployments.runtime.backends.opencl_blocks import load
from deployments.runtime.inputs import sample_inputs
from deployments.runtime.settings import DeviceSettings
from opencl_runner.device import open_device
from split_tool.plan import SplitPlan
from split_tool.splitting import split
from split_tool.tvm_opencl.attempts import Options
from split_tool.tvm_opencl.compiling import compile_plan
from split_tool.tvm_opencl.targets import TARGETS
from split_tool.zoo import DEFAULT_MODELS, MORE_MODELS


def measure(name: str, target: str, num_blocks: int, folder: Path) -> dict[str, object]:
    """Split, compile, load and run one model; the figures by column."""
    plan_folder = folder / name
    split(write_random(name, folder), plan_folder, blocks=num_blocks, graph="user", budget_s=0.1)
    begin_s = time.perf_counter()
    blocks = compile_plan(plan_folder, target, Options(cache=folder / "cache"), report=_tell).blocks
    compile_s = time.perf_counter() - begin_s
    plan = SplitPlan.load(plan_folder)
    begin_s = time.perf_counter()
    chain = load(plan, plan_folder, DeviceSettings(kind="opencl"), is_split=True)
    start_s = time.perf_counter() - begin_s
    inputs = sample_inputs(plan.inputs)
    assert inputs is not None
    begin_s = time.perf_counter()
    values = chain.start(inputs)
    for block in range(chain.num_blocks):
        chain.run_block(block, values)
    chain.finish(values)
    served = Counter(block.served_by for block in blocks)
    return {
        "model": name,
        "target": target,
        "blocks": len(blocks),
        "served by": ", ".join(f"{count} {server}" for server, count in served.items()),
        "kernels": sum(block.num_launches for block in blocks),
        "textures": sum(block.num_textures for block in blocks),
        "compile s": round(compile_s, 1),
        "start s": round(start_s, 2),
        "run s": round(time.perf_counter() - begin_s, 3),
        "rel error": float(f"{max(block.max_rel_error or 0.0 for block in blocks):.1e}"),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.opencl_models", description="Built-in models on OpenCL.")
    parser.add_argument("--target", choices=tuple(TARGETS), default="opencl")
    parser.add_argument("--models", default=",".join((*DEFAULT_MODELS, *MORE_MODELS)), metavar="A,B")
    parser.add_argument("--blocks", type=int, default=3, metavar="K", help="blocks of each model (default 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="dlir-opencl-") as folder:
        for name in options.models.split(","):
            rows.append(measure(name, options.target, options.blocks, Path(folder)))
            _tell(json.dumps(rows[-1]))
    if options.json:
        print(json.dumps({"device": open_device().name, "models": rows}))
        return
    table = Table(title=open_device().name)
    for column in rows[0]:
        table.add_column(column)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console().print(table)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
