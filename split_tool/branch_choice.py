"""Chooses which Ifs become several: those longer than a block may be, where both branches prove equal and it pays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import GraphProto, NodeProto

from split_tool.branches import BRANCHES, MARK, BranchPieces, body_of, pieces_of
from split_tool.chain import Chain
from split_tool.cutting import Cutting, cut_positions, prepare
from split_tool.errors import ModelRefusedError, NotEquivalentError
from split_tool.model_graph import cut_graph
from split_tool.partition import partition
from split_tool.plan import SlicedOperator, TensorSpec
from split_tool.progress import Report
from split_tool.scope import Functions, captured_names, domain_of
from split_tool.search import corrected
from split_tool.sessions import open_session, probing_model, run_session, session_options
from split_tool.slice_bench import ROUNDS
from split_tool.slice_choice import MAX_SLOWER, ROOM
from split_tool.source import initializer_names
from split_tool.standalone import part_of
from split_tool.turns import turn
from split_tool.values import from_ort, spec_from_runtime, to_ort
from split_tool.verify import Comparison

MIN_IF_MS = 0.2
"""Shorter Ifs stay whole: a piece, and a cut beside it, cost 0.03 to 0.1 ms."""

MAX_PIECES = 32


def with_open_branches(
    cutting: Cutting,
    max_block_ms: float,
    feeds: Mapping[str, ort.OrtValue],
    work: Path,
    *,
    report: Report,
) -> Cutting:
    """The cutting with every If in pieces that takes longer than ``max_block_ms``, where that is right and pays.

    Both branches run with the values that the If reads for ``feeds``, whatever its condition is then. A branch that
    does not run with them is not cut. An If stays whole if it draws random numbers, or gives other bits in pieces.

    Args:
        cutting: The graph as it is, with its costs.
        max_block_ms: The wanted longest block.
        feeds: Inputs as OrtValues.
        work: Folder for scratch files.
        report: Progress.

    Returns:
        ``cutting`` itself if no If is opened.
    """
    model = cutting.target.model
    functions = Functions(model.functions)
    opened: dict[int, list[NodeProto]] = {}
    for index, step_ms in zip(cutting.graph.steps, cutting.costs.step_ms, strict=True):
        node = model.graph.node[index]
        is_if = domain_of(node.domain) == "" and node.op_type == "If" and any(node.output)
        if not is_if or step_ms <= max(max_block_ms, MIN_IF_MS) or functions.is_random(node):
            continue
        report("cutting inside the branches of long Ifs", 0.0)
        try:
            pieces = _pieces(cutting, node, max_block_ms, feeds, work)
        except (ModelRefusedError, NotEquivalentError):
            continue
        if pieces:
            opened[index] = pieces
    if not opened:
        return cutting
    nodes = (piece for index, node in enumerate(model.graph.node) for piece in opened.get(index, [node]))
    made = prepare(cutting.target.with_nodes(nodes), feeds, cutting.device, work)
    return made.with_slices(
        tuple(
            SlicedOperator(
                output=next(filter(None, pieces[-1].output)), op_type="If", axis="branches", num_slices=len(pieces)
            )
            for pieces in opened.values()
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Captured:
    """What both branches take from outside, initializers excepted: its types, and its values for the given inputs."""

    specs: list[TensorSpec]
    values: dict[str, ort.OrtValue]


def _pieces(
    cutting: Cutting,
    node: NodeProto,
    max_block_ms: float,
    feeds: Mapping[str, ort.OrtValue],
    work: Path,
) -> list[NodeProto] | None:
    """The Ifs that take the place of ``node``; None if none pays.

    A branch that does not run with these values is not cut: the last If takes it whole.

    Raises:
        ModelRefusedError: If the pieces do not load or run.
        NotEquivalentError: If they give another result.
    """
    captured = _captured(cutting, node, feeds)
    branches: dict[str, BranchPieces] = {}
    tried: list[bool] = []
    for which in BRANCHES:
        body = body_of(node, which)
        alone = part_of(cutting.target, body.node, captured.specs, body)
        try:
            made = prepare(alone, captured.values, cutting.device, work)
        except ModelRefusedError:
            branches[which] = BranchPieces(body=body, graph=cut_graph(alone.model), cuts=(), types={})
            continue
        tried.append(which == "then_branch")
        branches[which] = _cut(made, captured, body, max_block_ms)
    if max(branch.num_pieces for branch in branches.values()) == 1:
        return None
    pieces = pieces_of(node, branches)
    return pieces if _is_right_and_pays(cutting, node, pieces, captured, tried) else None


def _cut(made: Cutting, captured: _Captured, body: GraphProto, max_block_ms: float) -> BranchPieces:
    """The branch cut evenly, in as many pieces as the bound asks for; only tensors may cross."""
    target = made.target
    chain = Chain([target.model], made.device, is_optimised=target.is_optimised, external_folder=target.folder)
    alone_ms = 1000 * min(sum(chain.run_timed(captured.values, [])) for _ in range(ROUNDS))
    made = corrected(made, [], [alone_ms])
    tensors = {name: spec for name, spec in made.probe.types.items() if spec.kind == "tensor"}
    positions, _ = cut_positions(made.graph, replace(made.probe, types=tensors))
    cut_ms = dict(zip(made.costs.positions, made.costs.cut_ms, strict=True))
    costs = replace(made.costs, positions=positions, cut_ms=tuple(cut_ms[position] for position in positions))
    wanted = math.ceil(sum(costs.step_ms) / (ROOM * max_block_ms))
    cuts = partition(costs, max(1, min(wanted, MAX_PIECES)))
    return BranchPieces(body=body, graph=made.graph, cuts=cuts, types=tensors)


def _captured(cutting: Cutting, node: NodeProto, feeds: Mapping[str, ort.OrtValue]) -> _Captured:
    graph = cutting.target.model.graph
    names = set(captured_names(node)) - initializer_names(graph)
    asked = sorted(names - {value.name for value in graph.input})
    options = session_options(cutting.device, optimise=False)
    session = open_session(
        probing_model(cutting.target, asked), cutting.device, options, external_folder=cutting.target.folder
    )
    values = {name: feeds[name] for name in names if name in feeds}
    if asked:
        values.update(run_session(session, asked, feeds))
    reported = [value for value in (*session.get_inputs(), *session.get_outputs()) if value.name in names]
    found = [spec_from_runtime(value.name, value.type, value.shape) for value in reported]
    specs = {spec.name: spec for spec in found if spec is not None}
    if names - set(specs) or names - set(values):
        raise ModelRefusedError("a branch takes something from outside whose type or value is not known")
    return _Captured(specs=list(specs.values()), values=values)


def _is_right_and_pays(
    cutting: Cutting, node: NodeProto, pieces: Sequence[NodeProto], captured: _Captured, conditions: Sequence[bool]
) -> bool:
    """True if the pieces give the same bits as the If for these conditions, and do not take much longer."""
    condition = TensorSpec(name=f"{MARK}-condition", dtype="bool", shape=None)
    sessions = [_session(cutting, nodes, [*captured.specs, condition]) for nodes in ([node], pieces)]
    found = [spec_from_runtime(value.name, value.type, value.shape) for value in sessions[0].get_outputs()]
    outputs = [spec for spec in found if spec is not None]
    names = [spec.name for spec in outputs]
    compared = Comparison(outputs=outputs, is_quantised=False)
    slowest_s = [0.0, 0.0]
    for holds in conditions:
        feeds = {**captured.values, condition.name: to_ort(np.asarray(holds), condition)}
        best_s = [math.inf, math.inf]
        for _ in range(ROUNDS):
            made: list[list[Any]] = []
            for which, session in enumerate(sessions):
                with turn():
                    begin_s = cutting.device.clock()
                    values = run_session(session, names, feeds)
                    best_s[which] = min(best_s[which], cutting.device.clock() - begin_s)
                made.append([from_ort(values[spec.name], spec) for spec in outputs])
            compared.add(*made)
        slowest_s = [max(pair) for pair in zip(slowest_s, best_s, strict=True)]
    is_right = compared.is_identical and len(outputs) == len(found)
    return is_right and slowest_s[1] <= slowest_s[0] * (1 + MAX_SLOWER)


def _session(cutting: Cutting, ifs: Sequence[NodeProto], specs: Sequence[TensorSpec]) -> ort.InferenceSession:
    """A session of these Ifs alone, their condition taken from the last of the inputs."""
    nodes = [NodeProto.FromString(node.SerializeToString()) for node in ifs]
    for node in nodes:
        node.input[0] = specs[-1].name
    part = part_of(cutting.target, nodes, specs)
    options = session_options(cutting.device, optimise=False)
    return open_session(part.model, cutting.device, options, external_folder=part.folder)
