"""How planning without measuring grows with the graph: time and memory over the number of nodes.

    python -m benchmarks.split_growth            a table
    python -m benchmarks.split_growth --json     the same as a JSON list

Planning is what the split tool does apart from running the model: read what each node reads and writes, order the
nodes, find where cuts may lie and what crosses them, partition into 8 blocks with equal costs, and say what each block
consists of. Two families: a chain of operators, and a ladder of diamonds, which has two to the number of rungs paths.
Memory is the peak of what planning allocates, by ``tracemalloc``, in a run of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from onnx import ModelProto, NodeProto, helper
from rich.console import Console
from rich.table import Table

from split_tool.cutting import CUT_MS, CUT_MS_PER_BYTE, cut_positions
from split_tool.model_graph import cut_graph
from split_tool.partition import Costs, partition
from split_tool.plan import TensorSpec
from split_tool.profile import Probe

NUM_BLOCKS = 8
NUM_NODES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
NUM_RUNGS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """One graph.

    Attributes:
        graph: Its family.
        nodes: Number of nodes.
        paths: Paths from the input to the output.
        plan_s: Time of planning; the best of three.
        us_per_node: The same per node.
        peak_mb: Largest amount of memory that planning held.
    """

    graph: str
    nodes: int
    paths: int
    plan_s: float
    us_per_node: float
    peak_mb: float


def chain(num_nodes: int) -> ModelProto:
    """Operators in a row."""
    nodes = [helper.make_node("Relu", [f"v{index}"], [f"v{index + 1}"]) for index in range(num_nodes)]
    return _model(nodes, f"v{num_nodes}")


def ladder(num_rungs: int) -> ModelProto:
    """Diamonds in a row: three nodes and twice the paths for each."""
    nodes: list[NodeProto] = []
    for index in range(num_rungs):
        nodes.append(helper.make_node("Relu", [f"v{index}"], [f"left{index}"]))
        nodes.append(helper.make_node("Neg", [f"v{index}"], [f"right{index}"]))
        nodes.append(helper.make_node("Add", [f"left{index}", f"right{index}"], [f"v{index + 1}"]))
    return _model(nodes, f"v{num_rungs}")


def plan(model: ModelProto) -> int:
    """Plan ``NUM_BLOCKS`` blocks with every step taking 1 ms; the number of blocks made."""
    graph = cut_graph(model)
    names = list(graph.lifetimes())
    probed = Probe(
        types={name: TensorSpec(name=name, dtype="float32", shape=None) for name in names},
        shapes=dict.fromkeys(names),
        sizes=dict.fromkeys(names, 4096),
    )
    positions, sizes = cut_positions(graph, probed)
    costs = Costs(
        step_ms=(1.0,) * graph.num_steps,
        positions=positions,
        cut_ms=tuple(CUT_MS + CUT_MS_PER_BYTE * size for size in sizes),
    )
    places = [0, *partition(costs, NUM_BLOCKS), graph.num_steps]
    return len([graph.block(places[index], places[index + 1]) for index in range(len(places) - 1)])


def growth(graph: str, model: ModelProto, *, paths: int) -> Growth:
    """Measure one graph."""
    num_nodes = len(model.graph.node)
    plan_s = min(_seconds(lambda: plan(model)) for _ in range(3))
    tracemalloc.start()
    plan(model)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Growth(
        graph=graph,
        nodes=num_nodes,
        paths=paths,
        plan_s=round(plan_s, 4),
        us_per_node=round(1e6 * plan_s / num_nodes, 1),
        peak_mb=round(peak_bytes / 1e6, 1),
    )


def _model(nodes: Sequence[NodeProto], output: str) -> ModelProto:
    inputs = [helper.make_tensor_value_info("v0", 1, [1, 1024])]
    outputs = [helper.make_tensor_value_info(output, 1, [1, 1024])]
    return helper.make_model(helper.make_graph(list(nodes), "growth", inputs, outputs))


def _seconds(work: Callable[[], object]) -> float:
    begin_s = time.perf_counter()
    work()
    return time.perf_counter() - begin_s


def _table(found: Sequence[Growth]) -> Table:
    table = Table(title=f"planning {NUM_BLOCKS} blocks without measuring")
    for heading in ("graph", "nodes", "paths", "time, s", "us per node", "peak, MB"):
        table.add_column(heading, justify="left" if heading == "graph" else "right")
    for row in found:
        paths = str(row.paths) if row.paths < 1000 else f"2^{math.log2(row.paths):.0f}"
        cells = (f"{row.nodes:,}", paths, f"{row.plan_s:.3f}", f"{row.us_per_node:.1f}", f"{row.peak_mb:.1f}")
        table.add_row(row.graph, *cells)
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.split_growth", description="Time of planning over nodes.")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    parser.add_argument("--nodes", type=int, action="append", help="length of a chain; default: 1,000 to 50,000")
    options = parser.parse_args(arguments)
    found = [growth("chain", chain(number), paths=1) for number in options.nodes or NUM_NODES]
    found.append(growth("ladder", ladder(NUM_RUNGS), paths=2**NUM_RUNGS))
    if options.json:
        print(json.dumps([asdict(row) for row in found], indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 120).print(_table(found))


if __name__ == "__main__":
    main()
