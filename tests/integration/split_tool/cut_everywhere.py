"""Cuts a model at every position, in two blocks and in as many as there are, and runs what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from split_tool.chain import Chain, feeds_to_ort
from split_tool.cutting import cut_positions
from split_tool.extract import write_block
from split_tool.model_graph import cut_graph
from split_tool.profile import probe
from split_tool.sessions import Device, Target, optimised_target, user_target
from split_tool.source import Source
from split_tool.values import from_ort
from split_tool.verify import with_seeds

DEVICE = Device()


def target_of(source: Source, kind: str, work: Path) -> Target:
    """The graph of that kind."""
    return user_target(source) if kind == "user" else optimised_target(source, DEVICE, work)


def outputs_at_every_cut(
    source: Source, target: Target, feeds: Sequence[Mapping[str, Any]], work: Path, *, seeded: bool, limit: int
) -> dict[tuple[int, ...], list[list[Any]]]:
    """For each way to cut, the model's outputs for each of ``feeds``.

    The ways: no cut, one cut at each position (at most ``limit`` of them, evenly spread), and a cut at all of those.
    """
    graph = cut_graph(target.model)
    probed = probe(target, graph, feeds_to_ort(feeds[0], source.inputs), DEVICE)
    positions, _ = cut_positions(graph, probed)
    positions = positions[:: max(1, len(positions) // limit)]
    ways = list(dict.fromkeys([(), *((position,) for position in positions), positions]))
    results: dict[tuple[int, ...], list[list[Any]]] = {}
    for number, way in enumerate(ways):
        places = [0, *way, graph.num_steps]
        blocks: list[Path | onnx.ModelProto] = []
        for index in range(len(places) - 1):
            file = work / f"{number}-{index}.onnx"
            write_block(target, graph.block(places[index], places[index + 1]), probed.types, file)
            blocks.append(with_seeds(onnx.load(file)) if seeded else file)
        chain = Chain(blocks, DEVICE, is_optimised=target.is_optimised)
        names = list(dict.fromkeys(spec.name for spec in source.outputs))
        results[way] = []
        for feed in feeds:
            made = chain.run(feeds_to_ort(feed, source.inputs), names)
            results[way].append([from_ort(made[spec.name], spec) for spec in source.outputs])
    return results
