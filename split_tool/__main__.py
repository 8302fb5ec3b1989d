"""Command line: ``python -m split_tool split | together | zoo | show | verify | compare | plot | compile | warm``."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from split_tool.errors import OptionError, SplitToolError
from split_tool.plan import SplitPlan
from split_tool.tvm_opencl.command import add_compile_command, add_warm_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it worked, 1 if the tool refused, 2 for wrong usage."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was begun is removed
    try:
        result: int = options.run(options)
    except SplitToolError as error:
        print(f"split_tool: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"split_tool: {error.strerror}: {error.filename}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("split_tool: interrupted, nothing was written", file=sys.stderr)
        return 130
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="split_tool", description="Split an ONNX model into consecutive blocks of even run time."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    split = commands.add_parser("split", help="split a model and write its plan and block files")
    split.add_argument("model", type=Path, metavar="MODEL", help="the ONNX file")
    split.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the plan")
    goal = split.add_mutually_exclusive_group()
    goal.add_argument("--blocks", default="auto", metavar="K", help="number of blocks, or auto (default)")
    goal.add_argument("--max-block-ms", type=float, metavar="X", help="longest block, in milliseconds")
    split.add_argument("--name", help="name of the model (default: the file's)")
    split.add_argument("--threads", type=int, default=1, metavar="N", help="intra-op threads (default 1)")
    split.add_argument(
        "--input", action="append", default=[], metavar="NAME=SHAPE", help="shape to measure with: image=1x3x224x224"
    )
    split.add_argument("--samples-from", type=Path, metavar="FILE.npz", help="real inputs to measure and compare with")
    split.add_argument("--graph", choices=("auto", "optimised", "user"), default="auto", help="which graph to cut")
    split.add_argument("--cache", type=Path, metavar="DIR", help="take the plan from here, or keep it here")
    split.add_argument("--force", action="store_true", help="split again, and replace what plan there is")
    split.add_argument("--json", action="store_true", help="print the plan as JSON")
    split.set_defaults(run=_split)

    show = commands.add_parser("show", help="print a plan")
    show.add_argument("folder", type=Path, metavar="DIR")
    show.add_argument("--json", action="store_true", help="print it as JSON")
    show.set_defaults(run=_show)

    verify = commands.add_parser("verify", help="compare the chain of blocks with the whole model again")
    verify.add_argument("folder", type=Path, metavar="DIR")
    verify.add_argument("--samples", type=int, default=3, metavar="N", help="random inputs (default 3)")
    verify.add_argument("--seed", type=int, default=1000, metavar="S", help="seed of the first (default 1000)")
    verify.add_argument("--samples-from", type=Path, metavar="FILE.npz", help="this input instead of random ones")
    verify.add_argument("--json", action="store_true", help="print the proof as JSON")
    verify.set_defaults(run=_verify)

    compare = commands.add_parser("compare", help="print plans side by side")
    compare.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    compare.add_argument("--json", action="store_true", help="print them as a JSON list")
    compare.set_defaults(run=_compare)

    together = commands.add_parser("together", help="split models that share a device, by the shortest of them")
    together.add_argument("models", type=Path, nargs="+", metavar="MODEL.onnx")
    together.set_defaults(run=_together)

    zoo = commands.add_parser("zoo", help="split the models that come with the onnx package")
    zoo.add_argument("--only", metavar="A,B", help="these models instead of the default five")
    zoo.add_argument("--together", action="store_true", help="as models that share a device")
    zoo.set_defaults(run=_zoo)

    for several, default in ((together, "as the shortest model takes"), (zoo, "the tool chooses")):
        several.add_argument("--max-block-ms", type=float, metavar="X", help=f"longest block (default: {default})")
        several.add_argument("--out", type=Path, default=Path("models"), metavar="DIR", help="folder (default models)")
        several.add_argument("--threads", type=int, default=1, metavar="N", help="intra-op threads (default 1)")
        several.add_argument("--force", action="store_true", help="split again even what is up to date")
        several.add_argument("--json", action="store_true", help="print the plans as a JSON list")

    add_compile_command(commands.add_parser("compile", help="compile the blocks of a plan for an OpenCL device (TVM)"))
    add_warm_command(commands.add_parser("warm", help="let the driver build compiled blocks now, for fast starts"))

    plot = commands.add_parser("plot", help="draw a plan: block times, bytes at the cuts, trade-off curve")
    plot.add_argument("folder", type=Path, metavar="DIR")
    plot.add_argument("--out", type=Path, required=True, metavar="FILE.png", help="picture (png, svg or pdf)")
    plot.add_argument("--json", action="store_true", help="print what was drawn as JSON")
    plot.set_defaults(run=_plot)
    return parser


def _split(options: argparse.Namespace) -> int:
    from split_tool.folders import existing_plan
    from split_tool.inputs import load_samples, parse_shapes
    from split_tool.progress import ProgressBar
    from split_tool.splitting import default_name, split

    before = existing_plan(options.out)
    with ProgressBar(options.name or default_name(options.model)) as report:
        plan = split(
            options.model,
            options.out,
            blocks=_num_blocks(options.blocks),
            max_block_ms=options.max_block_ms,
            name=options.name,
            num_threads=options.threads,
            input_shapes=parse_shapes(options.input),
            graph=options.graph,
            force=options.force,
            samples=load_samples(options.samples_from) if options.samples_from else None,
            cache=options.cache,
            report=report,
        )
    if plan == before:
        print(f"{options.out} is up to date: same model, machine, runtime and request", file=sys.stderr)
    _print(plan, as_json=options.json)
    return 0


def _show(options: argparse.Namespace) -> int:
    _print(SplitPlan.load(options.folder), as_json=options.json)
    return 0


def _verify(options: argparse.Namespace) -> int:
    from split_tool.checking import verify_folder
    from split_tool.inputs import load_samples

    samples = load_samples(options.samples_from) if options.samples_from else None
    proof = verify_folder(options.folder, num_samples=options.samples, seed=options.seed, samples=samples)
    if options.json:
        _print_json(proof)
        return 0
    difference = "" if proof.cause is None else f", at most {proof.max_abs_difference:.3g} apart ({proof.cause})"
    kind = "given input" if samples is not None else f"random inputs, seed {proof.seed}"
    print(f"{options.folder}: {proof.verdict} on {proof.num_samples} {kind}{difference}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    from split_tool.comparing import figures_of, print_comparison

    plans = [figures_of(str(folder), SplitPlan.load(folder)) for folder in options.folders]
    if options.json:
        _print_json(plans)
    else:
        print_comparison(plans, Console(width=None if sys.stdout.isatty() else 200))
    return 0


def _zoo(options: argparse.Namespace) -> int:
    from split_tool.zoo import DEFAULT_MODELS, model_path

    names = options.only.split(",") if options.only else DEFAULT_MODELS
    return _split_all({name: model_path(name) for name in names}, options, is_shared=options.together)


def _together(options: argparse.Namespace) -> int:
    from split_tool.splitting import default_name

    paths = {default_name(path): path for path in options.models}
    if len(paths) < len(options.models):
        raise OptionError("two of the files have the same name: each is the name of its model and of its folder")
    return _split_all(paths, options, is_shared=True)


def _split_all(paths: dict[str, Path], options: argparse.Namespace, *, is_shared: bool) -> int:
    from split_tool.progress import ProgressBar
    from split_tool.report import longest_ms, overhead_pct
    from split_tool.together import Result, split_all

    def tell(result: Result) -> None:
        if options.json:
            return
        plan = result.plan
        print(
            f"{result.folder}: {len(plan.blocks)} blocks, whole {plan.isolated_ms:.1f} ms, longest block "
            f"{longest_ms(plan):.1f} ms, chain {overhead_pct(plan):+.1f} %, {plan.proof.verdict}"
            + ("" if result.is_new else " (up to date)"),
            flush=True,
        )

    with ProgressBar(options.command) as bar:
        results = split_all(
            paths,
            options.out,
            max_block_ms=options.max_block_ms,
            is_shared=is_shared,
            num_threads=options.threads,
            force=options.force,
            reporter=lambda name: lambda phase, share: bar(f"{name}: {phase}", share),
            on_done=tell,
        )
    if options.json:
        _print_json([result.plan for result in results])
    return 0


def _plot(options: argparse.Namespace) -> int:
    from split_tool.plot import plot_plan

    plan = SplitPlan.load(options.folder)
    plot_plan(plan, options.out)
    if options.json:
        _print_json({"file": str(options.out), "trade_off": plan.trade_off})
    else:
        print(options.out)
    return 0


def _print(plan: SplitPlan, *, as_json: bool) -> None:
    if as_json:
        _print_json(plan)
        return
    from split_tool.report import print_plan

    print_plan(plan, Console(width=None if sys.stdout.isatty() else 200))


def _print_json(content: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())


def _num_blocks(text: str) -> int | None:
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"--blocks {text}: a number, or auto") from None


if __name__ == "__main__":
    sys.exit(main())
