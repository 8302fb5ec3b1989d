"""The commands ``compile`` and ``warm`` of the split tool."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from opencl_runner.errors import OpenClError
from opencl_runner.plan import CompiledPlan, find_compiled
from split_tool.errors import SplitToolError
from split_tool.tvm_opencl.errors import CompilerMissingError
from split_tool.tvm_opencl.targets import CONVOLUTIONS, TARGETS


def add_compile_command(parser: argparse.ArgumentParser) -> None:
    """Options of ``compile``."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="plan folder, split with --graph user")
    parser.add_argument("--backend", choices=("tvm",), default="tvm", help="compiler (default tvm)")
    parser.add_argument("--target", choices=tuple(TARGETS), default="opencl", help="kind of device (default opencl)")
    parser.add_argument(
        "--convolutions",
        choices=CONVOLUTIONS,
        default="auto",
        help="3x3 convolutions: by the target's rule, direct, or what is faster here of direct and Winograd",
    )
    parser.add_argument("--warm", action="store_true", help="let this machine's driver build the kernels as well")
    parser.add_argument("--limit-s", type=float, default=300.0, metavar="X", help="compiler time for a block")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="folder for compiled blocks (default: .cache beside)")
    _add_common(parser)
    parser.set_defaults(run=_compile)


def add_warm_command(parser: argparse.ArgumentParser) -> None:
    """Options of ``warm``."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="plan folder with compiled blocks; needs no TVM")
    parser.add_argument("--target", choices=tuple(TARGETS), help="needed where several are compiled")
    _add_common(parser)
    parser.set_defaults(run=_warm)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", type=int, default=0, metavar="N", help="OpenCL device of this machine (default 0)")
    parser.add_argument("--json", action="store_true", help="print the compiled plan as JSON")


def _compile(options: argparse.Namespace) -> int:
    try:
        from split_tool.tvm_opencl.attempts import Options
        from split_tool.tvm_opencl.compiling import compile_plan
    except ModuleNotFoundError as error:
        raise CompilerMissingError(f"{error.name} is missing: install it with pip install 'dlir-serve[tvm]'") from error
    how = Options(
        convolutions=options.convolutions, limit_s=options.limit_s, cache=options.cache, device=options.device
    )
    compiled = compile_plan(options.folder, options.target, how, report=_tell)
    if options.warm:
        _warm_up(options.folder, options.target, options.device)
    _print(compiled, as_json=options.json)
    return 0


def _warm(options: argparse.Namespace) -> int:
    _warm_up(options.folder, options.target, options.device)
    _print(_load(options.folder, options.target), as_json=options.json)
    return 0


def _load(folder: Path, target: str | None) -> CompiledPlan:
    try:
        return CompiledPlan.load(find_compiled(folder, target))
    except OpenClError as error:
        raise SplitToolError(str(error)) from error


def _warm_up(folder: Path, target: str | None, device: int) -> None:
    try:
        from opencl_runner.warming import warm
    except ModuleNotFoundError as error:
        raise CompilerMissingError(
            f"{error.name} is missing: install it with pip install 'dlir-serve[opencl]'"
        ) from error
    try:
        warm(find_compiled(folder, target), device, _tell)
    except OpenClError as error:
        raise SplitToolError(str(error)) from error


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _print(compiled: CompiledPlan, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(compiled), indent=2).decode())
        return
    print(f"target {compiled.target}, {compiled.compiler}, checked on {compiled.checked_on or 'no device'}")
    for number, block in enumerate(compiled.blocks):
        error = "unchecked" if block.max_rel_error is None else f"relative error {block.max_rel_error:.1e}"
        textures = f", {block.num_textures} textures" if block.num_textures else ""
        winograd = f", {block.winograd} Winograd" if block.winograd else ""
        kernels = f": {block.num_launches} kernels{textures}{winograd}, {error}" if block.folder else ""
        print(f"  block {number} on {block.served_by}{kernels}")
        for reason in block.reasons:
            print(f"    not on {reason}")
    for shape, times in compiled.measured_ms.items():
        print(f"  convolution for {shape}: " + ", ".join(f"{name} {time_ms:.2f} ms" for name, time_ms in times.items()))
