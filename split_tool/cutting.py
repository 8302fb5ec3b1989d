"""One graph made ready for cutting: its steps, where a cut may lie, what steps and cuts cost, and writing blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import onnxruntime as ort

from split_tool.chain import Chain
from split_tool.extract import write_block
from split_tool.graph import BlockParts, CutGraph
from split_tool.model_graph import cut_graph
from split_tool.partition import Costs
from split_tool.plan import Cut, SlicedOperator, TensorSpec
from split_tool.profile import Probe, probe, step_costs_ms
from split_tool.sessions import Device, Target

CUT_MS = 0.03
"""One more run of a session: about what two calls into the runtime cost."""

CUT_MS_PER_BYTE = 1e-7
"""Allocating what crosses, and finding it out of the cache: 10 GB/s."""

UNKNOWN_BYTES = 1024
"""Size assumed for text, sequences and optionals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """A target with all that choosing cuts needs.

    Attributes:
        target: The graph.
        graph: Its steps and live values.
        probe: Types and sizes of its values.
        costs: Estimated times.
        device: Where it runs.
        sliced: Operators of the model that are several in this graph.
    """

    target: Target
    graph: CutGraph
    probe: Probe
    costs: Costs
    device: Device
    sliced: tuple[SlicedOperator, ...] = ()

    def with_costs(self, step_ms: Sequence[float]) -> Cutting:
        """The same with corrected step times."""
        return replace(self, costs=replace(self.costs, step_ms=tuple(step_ms)))

    def with_slices(self, sliced: tuple[SlicedOperator, ...]) -> Cutting:
        """The same with a record of what is sliced in it."""
        return replace(self, sliced=sliced)

    def parts(self, cuts: Sequence[int]) -> list[BlockParts]:
        """The blocks between the cuts."""
        places = [0, *cuts, self.graph.num_steps]
        return [self.graph.block(start, stop) for start, stop in pairwise(places)]

    def write(self, cuts: Sequence[int], folder: Path) -> list[Path]:
        """Write all block files into ``folder``, in run order."""
        folder.mkdir(parents=True, exist_ok=True)
        files: list[Path] = []
        for index, parts in enumerate(self.parts(cuts)):
            files.append(folder / f"{index:02d}.onnx")
            write_block(self.target, parts, self.probe.types, files[-1])
        return files

    def load(self, files: Sequence[Path]) -> Chain:
        """Sessions of written blocks."""
        return Chain(files, self.device, is_optimised=self.target.is_optimised)

    def describe(self, position: int) -> Cut:
        """The cut as the plan records it, with the shapes of the probing run."""
        tensors = tuple(self._seen(name) for name in self.graph.live(position))
        sizes = [self.probe.sizes.get(spec.name) for spec in tensors]
        known = [size for size in sizes if size is not None]
        return Cut(position=position, tensors=tensors, crossing_bytes=sum(known) if len(known) == len(sizes) else None)

    def _seen(self, name: str) -> TensorSpec:
        declared = self.probe.types[name]
        return TensorSpec(name=name, dtype=declared.dtype, shape=self.probe.shapes.get(name), kind=declared.kind)


def prepare(target: Target, feeds: Mapping[str, ort.OrtValue], device: Device, work: Path) -> Cutting:
    """Analyse, probe and profile a target.

    Raises:
        ModelRefusedError: If the graph has a cycle, or ONNX Runtime cannot load or run it.
    """
    graph = cut_graph(target.model)
    probed = probe(target, graph, feeds, device)
    step_ms = step_costs_ms(target, graph, feeds, device, work)
    positions, sizes = cut_positions(graph, probed)
    return Cutting(
        target=target,
        graph=graph,
        probe=probed,
        costs=Costs(
            step_ms=step_ms,
            positions=positions,
            cut_ms=tuple(CUT_MS + CUT_MS_PER_BYTE * size for size in sizes),
        ),
        device=device,
    )


def cut_positions(graph: CutGraph, probed: Probe) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where a cut may lie, and the bytes that cross there.

    No cut is offered between an operator and its quantiser, nor where a value of a type lives that no plan can name.
    """
    change = [0] * (graph.num_steps + 2)
    barred = [0] * (graph.num_steps + 2)
    for name, (first, last) in graph.lifetimes().items():
        size = probed.sizes.get(name)
        change[first] += UNKNOWN_BYTES if size is None else size
        change[last + 1] -= UNKNOWN_BYTES if size is None else size
        if name not in probed.types:
            barred[first] += 1
            barred[last + 1] -= 1
    parting = graph.parting_positions()
    positions: list[int] = []
    sizes: list[int] = []
    alive = blocked = 0
    for position in range(1, graph.num_steps):
        alive += change[position]
        blocked += barred[position]
        if not blocked and position not in parting:
            positions.append(position)
            sizes.append(alive)
    return tuple(positions), tuple(sizes)
