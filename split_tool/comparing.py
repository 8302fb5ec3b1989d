"""Plans side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from split_tool.plan import SplitPlan
from split_tool.report import bytes_text, longest_ms, overhead_pct


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFigures:
    """What plans are compared by.

    Attributes:
        folder: Where the plan lies.
        model: Name of the model.
        source_sha256: Hash of the model's file.
        graph: Which graph was cut.
        blocks: Number of blocks.
        isolated_ms: Whole model alone.
        chain_ms: All blocks in a row.
        overhead_pct: What the chain takes longer, in per cent.
        longest_block_ms: The longest block.
        block_std_ms: Standard deviation over the blocks.
        mean_wait_ms: Mean time to the next boundary from a moment during the run: what a newcomer waits.
        crossing_bytes: What crosses all cuts together; None if not all of it was measured.
        file_bytes: Size of all block files.
        sliced: Operators that run in several parts.
        proof: The proof's verdict.
        runtime: Runtime that it was measured with.
        processor: Processor or GPU that it was measured on.
    """

    folder: str
    model: str
    source_sha256: str
    graph: str
    blocks: int
    isolated_ms: float
    chain_ms: float
    overhead_pct: float
    longest_block_ms: float
    block_std_ms: float
    mean_wait_ms: float
    crossing_bytes: int | None
    file_bytes: int
    sliced: int
    proof: str
    runtime: str
    processor: str


def figures_of(folder: str, plan: SplitPlan) -> PlanFigures:
    """The figures of one plan."""
    times = np.asarray([block.time_ms for block in plan.blocks])
    crossing = [cut.crossing_bytes for cut in plan.cuts]
    known = [size for size in crossing if size is not None]
    return PlanFigures(
        folder=folder,
        model=plan.model,
        source_sha256=plan.source_sha256,
        graph=plan.graph,
        blocks=len(plan.blocks),
        isolated_ms=plan.isolated_ms,
        chain_ms=plan.chain_ms,
        overhead_pct=overhead_pct(plan),
        longest_block_ms=longest_ms(plan),
        block_std_ms=float(times.std()),
        mean_wait_ms=float((times**2).sum() / (2 * times.sum())) if times.sum() > 0 else 0.0,
        crossing_bytes=sum(known) if len(known) == len(crossing) else None,
        file_bytes=sum(block.file_bytes for block in plan.blocks),
        sliced=len(plan.sliced),
        proof=plan.proof.verdict,
        runtime=plan.measured_on.runtime,
        processor=plan.measured_on.processor,
    )


def print_comparison(plans: Sequence[PlanFigures], console: Console) -> None:
    """A column per plan; says so if they are not of the same model or machine."""
    table = Table(box=None, pad_edge=False, header_style="", padding=(0, 2))
    table.add_column("")
    for plan in plans:
        table.add_column(plan.folder, justify="right", overflow="fold")
    rows = (
        ("model", [plan.model for plan in plans]),
        ("graph", [plan.graph for plan in plans]),
        ("blocks", [str(plan.blocks) for plan in plans]),
        ("whole, ms", [f"{plan.isolated_ms:.2f}" for plan in plans]),
        ("chain, ms", [f"{plan.chain_ms:.2f}" for plan in plans]),
        ("overhead, %", [f"{plan.overhead_pct:+.1f}" for plan in plans]),
        ("longest block, ms", [f"{plan.longest_block_ms:.2f}" for plan in plans]),
        ("std of blocks, ms", [f"{plan.block_std_ms:.2f}" for plan in plans]),
        ("mean wait for a boundary, ms", [f"{plan.mean_wait_ms:.2f}" for plan in plans]),
        ("crosses all cuts", [bytes_text(plan.crossing_bytes) for plan in plans]),
        ("block files", [bytes_text(plan.file_bytes) for plan in plans]),
        ("operators sliced inside", [str(plan.sliced) for plan in plans]),
        ("proof", [plan.proof for plan in plans]),
    )
    for heading, cells in rows:
        table.add_row(heading, *cells)
    console.print(table)
    if len({plan.source_sha256 for plan in plans}) > 1:
        console.print("  note  these are plans of different models", markup=False, highlight=False)
    if len({(plan.processor, plan.runtime) for plan in plans}) > 1:
        console.print("  note  measured on different machines or runtimes", markup=False, highlight=False)
