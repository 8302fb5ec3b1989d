"""One short run on a device, and one table: ``benchmarks/gpu.sh`` runs it.

    python -m benchmarks.gpu                   a CUDA GPU: five models, fifo, parallel and slo; under 8 minutes
    python -m benchmarks.gpu --device cpu      the short form on the processor: two models, some seconds

Measured, in this order: whether the blocks give on the device what the whole model gives on the processor; what
splitting costs; a boundary (blocks that do nothing); then the models together, each in a process of its own, in each
mode: the hand-over between processes and the share of late requests. Not measured: Ray, HTTP, decoding. The models
are split here, by their times on the processor.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec
import onnxruntime as ort
from rich.console import Console
from rich.table import Table

from benchmarks import lease
from benchmarks.gpu.chains import ChainFigures, chain_figures
from benchmarks.gpu.mix import ALPHAS, ModeFigures, run_mode
from deployments.runtime.settings import DeviceSettings
from serve_app.doctor.probe import reason_not_usable
from split_tool.splitting import split
from split_tool.zoo import DEFAULT_MODELS, model_path

MODES = ("fifo", "parallel", "slo")
_SHORT_MODELS = ("squeezenet", "shufflenet")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 1 if the device cannot be used."""
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description="Blocks, boundaries and modes on a device.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default cuda")
    parser.add_argument("--models", help="zoo models, comma-separated (default: the zoo; --device cpu: two)")
    parser.add_argument("--blocks", type=int, default=4, help="blocks of each model (default 4)")
    parser.add_argument("--load", type=float, default=0.8, help="isolated run time that arrives per second")
    parser.add_argument("--seconds", type=float, help="length of each mode (default 30; --device cpu: 5)")
    parser.add_argument("--plans", type=Path, default=Path("out/gpu-plans"), help="where plans are kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    options = parser.parse_args(arguments)
    is_short = options.device == "cpu"
    device = DeviceSettings(kind=options.device, mode=MODES[0])
    if (reason := reason_not_usable(device)) is not None:
        print(f"{options.device} cannot be used, nothing was measured: {reason}", file=sys.stderr)
        print("the short form runs on any machine: benchmarks/gpu.sh --device cpu", file=sys.stderr)
        return 1
    names = options.models.split(",") if options.models else _SHORT_MODELS if is_short else DEFAULT_MODELS
    seconds = options.seconds or (5.0 if is_short else 30.0)
    began_s = time.monotonic()
    chains = [_chain(name, options.plans, options.blocks, device, 1.0 if is_short else 3.0) for name in names]
    boundary_us = _boundary_us()
    modes = []
    for mode in MODES:
        _tell(f"mode {mode}")
        stated = msgspec.structs.replace(device, mode=mode)
        modes.append(run_mode(chains, options.plans, stated, load=options.load, seconds=seconds))
    took_s = time.monotonic() - began_s
    _print(chains, modes, boundary_us, f"{options.device}, onnxruntime {ort.__version__}, {took_s:.0f} s in all")
    if options.json:
        figures = {
            "device": options.device,
            "boundary_us": boundary_us,
            "chains": [asdict(each) for each in chains],
            "modes": [asdict(each) for each in modes],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def _chain(name: str, plans: Path, blocks: int, device: DeviceSettings, seconds: float) -> ChainFigures:
    _tell(f"model {name}")
    folder = plans / name
    split(model_path(name), folder, name=name, blocks=blocks, graph="user", force=not folder.exists())
    return chain_figures(folder, device, seconds=seconds)


def _boundary_us() -> float:
    """Median time from the end of a block to the start of the next one in an undisturbed turn, microseconds."""
    _tell("boundary")
    world = lease.World(DeviceSettings(mode="fifo"))
    try:
        turns, _ = world.run(world.replicas[:1], 2000, 0.0, 1, True)
    finally:
        world.close()
    return statistics.median(b - a for turn in turns for a, b in itertools.pairwise(turn.block_ends_s)) * 1e6


def _print(chains: Sequence[ChainFigures], modes: Sequence[ModeFigures], boundary_us: float, title: str) -> None:
    table = Table(title=title, show_header=False)
    for chain in chains:
        table.add_row(
            chain.model,
            f"whole {chain.whole_s * 1e3:.2f} ms, {len(chain.block_times_s)} blocks {chain.overhead:+.1%}, longest "
            f"{max(chain.block_times_s) * 1e3:.2f} ms, differs by {chain.difference:.1e} from the processor, "
            f"{chain.memory_bytes / (1 << 20):.1f} MiB",
        )
    table.add_section()
    table.add_row("boundary", f"{boundary_us:.1f} us")
    for mode in modes:
        late = ", ".join(f"{share:.1%}" for share in mode.violations)
        passed = "" if mode.handovers_us is None else f", hand-over {mode.handovers_us[0]:.0f} us (p99 "
        passed += "" if mode.handovers_us is None else f"{mode.handovers_us[1]:.0f})"
        over = "/".join(f"{alpha:g}" for alpha in ALPHAS)
        table.add_row(
            mode.mode,
            f"{mode.num_requests} requests, over {over} times the isolated time: {late}, "
            f"p99 {mode.p99_ratio:.1f} times{passed}",
        )
    Console(width=None if sys.stdout.isatty() else 150).print(table)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
