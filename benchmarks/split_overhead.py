"""What splitting costs: the chain of blocks beside the whole model, in turns, in one run.

    python -m benchmarks.split_overhead                               the zoo, 4 and 8 blocks
    python -m benchmarks.split_overhead --model net.onnx --blocks 2,4,8 --json
    python -m benchmarks.split_overhead --model vgg19 --max-block-ms 15

Each model is split into a scratch folder (``--plans DIR`` keeps the plans, and takes them if they are up to date), then
its files are loaded again and measured: whole model (plain ONNX Runtime, default optimisation) and chain run in turns.
The overhead is the median over the rounds of chain / whole - 1; other times are medians.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from split_tool.checking import measure_folder
from split_tool.plan import SplitPlan
from split_tool.splitting import default_name, split
from split_tool.zoo import DEFAULT_MODELS, model_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """One model in one number of blocks.

    Attributes:
        model: Its name.
        isolated_ms: Whole model alone.
        blocks: Number of blocks made.
        overhead_pct: What the chain takes longer, in per cent; a cost of hand-over between processes is not in it.
        longest_block_ms: The longest block.
        block_std_ms: Standard deviation over the blocks: how even they are.
    """

    model: str
    isolated_ms: float
    blocks: int
    overhead_pct: float
    longest_block_ms: float
    block_std_ms: float


def overhead_of(folder: Path, *, seconds: float) -> Overhead:
    """Measure the plan in ``folder``."""
    plan = SplitPlan.load(folder)
    measured = measure_folder(folder, budget_s=seconds, min_rounds=15, max_rounds=400)
    return Overhead(
        model=plan.model,
        isolated_ms=round(measured.isolated_ms, 3),
        blocks=len(plan.blocks),
        overhead_pct=round(100 * measured.overhead, 2),
        longest_block_ms=round(max(measured.block_ms), 3),
        block_std_ms=round(float(np.std(measured.block_ms)), 3),
    )


def _measured(options: argparse.Namespace, plans: Path) -> Iterator[Overhead]:
    for text in options.model or DEFAULT_MODELS:
        path = Path(text) if text.endswith(".onnx") else model_path(text)
        name = default_name(path).removeprefix("light_")
        goals: list[dict[str, float]] = [{"max_block_ms": options.max_block_ms}]
        if options.max_block_ms is None:
            goals = [{"blocks": int(number)} for number in options.blocks.split(",")]
        for goal in goals:
            ((kind, wanted),) = goal.items()
            folder = plans / f"{name}-{kind}-{wanted:g}-{options.threads}"
            split(path, folder, name=name, num_threads=options.threads, force=not folder.exists(), **goal)  # type: ignore[arg-type]
            yield overhead_of(folder, seconds=options.seconds)


def _table(found: Sequence[Overhead]) -> Table:
    table = Table(title="chain of blocks against the whole model")
    for heading in ("model", "whole, ms", "blocks", "overhead, %", "longest block, ms", "std of blocks, ms"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for row in found:
        table.add_row(
            row.model,
            f"{row.isolated_ms:.2f}",
            str(row.blocks),
            f"{row.overhead_pct:+.1f}",
            f"{row.longest_block_ms:.2f}",
            f"{row.block_std_ms:.2f}",
        )
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.split_overhead", description="Overhead of splitting.")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    parser.add_argument("--model", action="append", help="a zoo model or an .onnx file; may be repeated; default: zoo")
    parser.add_argument("--blocks", default="4,8", metavar="K,K", help="numbers of blocks (default 4,8)")
    parser.add_argument("--max-block-ms", type=float, metavar="X", help="split for this longest block instead")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="intra-op threads (default 1)")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="per measurement (default 10)")
    parser.add_argument("--plans", type=Path, metavar="DIR", help="keep the plans here")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="split-overhead-") as scratch:
        found: list[Overhead] = []
        for row in _measured(options, options.plans or Path(scratch)):
            print(f"{row.model}, {row.blocks} blocks: {row.overhead_pct:+.1f} %", file=sys.stderr, flush=True)
            found.append(row)
    if options.json:
        print(json.dumps([asdict(row) for row in found], indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 120).print(_table(found))


if __name__ == "__main__":
    main()
