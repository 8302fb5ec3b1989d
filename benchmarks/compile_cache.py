"""How long it takes to get a model ready on an OpenCL device: compiled or not, its programs built or not.

``python -m benchmarks.compile_cache [--json]``; needs the extra ``tvm`` and an OpenCL device. Each start is a
process of its own with an empty cache of PoCL.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.random_weights import write_random
from opencl_runner.block import Block
from opencl_runner.checking import load_values, run_once
from opencl_runner.device import open_device
from opencl_runner.plan import PROGRAMS_FOLDER, CompiledPlan, find_compiled
from opencl_runner.programs import ProgramCache
from opencl_runner.warming import warm
from split_tool.splitting import split
from split_tool.tvm_opencl.attempts import Options
from split_tool.tvm_opencl.compiling import compile_plan


def start(folder: Path) -> dict[str, float]:
    """Load all compiled blocks of ``folder`` and run each once, as a server does when it starts; seconds of both."""
    device = open_device()
    values = load_values(folder)
    programs = ProgramCache(folder / PROGRAMS_FOLDER)
    begin_s = time.perf_counter()
    blocks = [
        Block(folder / block.folder, device, programs) for block in CompiledPlan.load(folder).blocks if block.folder
    ]
    loaded_s = time.perf_counter()
    for block in blocks:
        run_once(block, device, values)
    return {"load_s": loaded_s - begin_s, "first_run_s": time.perf_counter() - loaded_s}


def start_in_new_process(folder: Path) -> float:
    """Seconds that ``start`` takes where neither this process nor PoCL has seen the programs."""
    with tempfile.TemporaryDirectory(prefix="pocl-") as cache:
        command = [sys.executable, "-m", "benchmarks.compile_cache", "--start", str(folder)]
        environment = {**os.environ, "POCL_CACHE_DIR": cache}
        answer = subprocess.run(command, env=environment, check=True, capture_output=True).stdout
    return float(sum(json.loads(answer).values()))


def measure(name: str) -> dict[str, object]:
    """All figures for one model, in seconds."""
    with tempfile.TemporaryDirectory(prefix="dlir-cache-") as text, tempfile.TemporaryDirectory() as cache:
        folder = Path(text)
        os.environ["POCL_CACHE_DIR"] = cache
        plan_folder = folder / name
        split(write_random(name, folder), plan_folder, blocks=1, graph="user", budget_s=0.1)
        compile_s = [block.compile_s for block in compile_plan(plan_folder, "opencl", Options()).blocks]
        begin_s = time.perf_counter()
        again = compile_plan(plan_folder, "opencl", Options())
        again_s = time.perf_counter() - begin_s
        compiled = find_compiled(plan_folder, "opencl")
        first_s = start_in_new_process(compiled)
        begin_s = time.perf_counter()
        warm(compiled, 0, lambda line: print(line, file=sys.stderr))
        warm_s = time.perf_counter() - begin_s
        second_s = start_in_new_process(compiled)
        stored = sum(file.stat().st_size for file in (compiled / PROGRAMS_FOLDER).iterdir())
    return {
        "model": name,
        "device": again.checked_on,
        "kernels": sum(block.num_launches for block in again.blocks),
        "tvm_s": round(sum(compile_s), 2),
        "command_again_s": round(again_s, 2),
        "first_start_s": round(first_s, 2),
        "warming_s": round(warm_s, 2),
        "second_start_s": round(second_s, 3),
        "times_faster": round(first_s / second_s, 1),
        "stored_mb": round(stored / 1e6, 1),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.compile_cache", description="What the compile caches save.")
    parser.add_argument("--model", default="squeezenet", help="a built-in model (default squeezenet)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--start", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.start is not None:
        print(json.dumps(start(options.start)))
        return
    found = measure(options.model)
    print(json.dumps(found) if options.json else "\n".join(f"{key:>16}  {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
