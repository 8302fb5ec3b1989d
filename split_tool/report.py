"""A plan as text for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from split_tool.plan import SplitPlan, TensorSpec


def overhead_pct(plan: SplitPlan) -> float:
    """What the chain takes longer than the whole model, in per cent."""
    return 100 * (plan.chain_ms / plan.isolated_ms - 1) if plan.isolated_ms > 0 else 0.0


def longest_ms(plan: SplitPlan) -> float:
    """The longest block, in ms."""
    return max(block.time_ms for block in plan.blocks)


def print_plan(plan: SplitPlan, console: Console) -> None:
    """Write the plan: what goes in and out, a row per block, the proof, where it was measured, the notes."""
    blocks = "1 block (not split)" if len(plan.blocks) == 1 else f"{len(plan.blocks)} blocks"
    _line(console, f"{plan.model}: {blocks} of the {plan.graph} graph")
    _line(console, f"  inputs   {', '.join(map(_spec_text, plan.inputs)) or 'none'}")
    _line(console, f"  outputs  {', '.join(map(_spec_text, plan.outputs))}")
    _line(
        console,
        f"  time     whole {plan.isolated_ms:.2f} ms, chain {plan.chain_ms:.2f} ms ({overhead_pct(plan):+.1f} %), "
        f"longest block {longest_ms(plan):.2f} ms",
    )
    table = Table(box=None, pad_edge=False, header_style="", padding=(0, 2))
    for heading in ("  block", "ms", "share", "nodes", "file", "crosses after it", "bytes"):
        table.add_column(heading, justify="left" if heading == "crosses after it" else "right")
    for index, block in enumerate(plan.blocks):
        cut = plan.cuts[index] if index < len(plan.cuts) else None
        tensors = ", ".join(map(_spec_text, cut.tensors[:2])) if cut else ""
        if cut and len(cut.tensors) > 2:
            tensors += f" and {len(cut.tensors) - 2} more"
        table.add_row(
            f"{index:d}",
            f"{block.time_ms:.2f}",
            f"{block.time_ms / max(plan.chain_ms, 1e-9):.0%}",
            str(block.num_nodes),
            bytes_text(block.file_bytes),
            tensors or ("" if cut is None else "nothing"),
            "" if cut is None else bytes_text(cut.crossing_bytes),
        )
    console.print(table)
    proof = plan.proof
    difference = "" if proof.cause is None else f" (at most {proof.max_abs_difference:.3g}: {proof.cause})"
    _line(console, f"  proof    {proof.verdict} on {proof.num_samples} inputs, seed {proof.seed}{difference}")
    where = plan.measured_on
    threads = "1 thread" if where.num_threads == 1 else f"{where.num_threads} threads"
    _line(
        console,
        f"  measured {where.processor}, {threads}, {where.provider} of {where.runtime}, {where.measured_at}",
    )
    for note in plan.notes:
        _line(console, f"  note     {note}")


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _spec_text(spec: TensorSpec) -> str:
    shape = "" if spec.shape is None else "[" + "x".join(str(d) if d is not None else "?" for d in spec.shape) + "]"
    name = spec.name if len(spec.name) <= 40 else spec.name[:37] + "..."
    kind = "" if spec.kind == "tensor" else f"{spec.kind} of "
    return f"{name} {kind}{spec.dtype}{shape}"


def bytes_text(size: int | None) -> str:
    """A size in bytes for people, in powers of 1000: ``41 B``, ``968.0 KB``; ``?`` where it is not known."""
    if size is None:
        return "?"
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000  # type: ignore[assignment]
    return f"{size:.1f} GB"
