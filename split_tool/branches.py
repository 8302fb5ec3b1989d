"""Rewrites one If as several on the same condition, each with a piece of both branches (pure).

The k-th If runs the k-th piece of the branch that the condition picks. What a piece hands to later pieces of its branch
becomes an output of its If, under a name of its own; the other branch gives an empty tensor of that type there, which
nobody reads. A branch of fewer pieces takes the last Ifs and gives empty tensors in those before. The last If gives
the outputs of the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from split_tool.graph import CutGraph
from split_tool.plan import TensorSpec
from split_tool.scope import defined_names, subgraphs
from split_tool.values import onnx_dtype

MARK = "split-tool-piece"
"""Part of the names of everything that is added."""

BRANCHES = ("then_branch", "else_branch")


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchPieces:
    """One branch and where it is cut.

    Attributes:
        body: The branch.
        graph: Its steps; what it captures counts as inputs.
        cuts: Positions, ascending.
        types: Types of the values that cross them, all of them tensors.
    """

    body: GraphProto
    graph: CutGraph
    cuts: tuple[int, ...]
    types: Mapping[str, TensorSpec]

    @property
    def num_pieces(self) -> int:
        """One more than there are cuts."""
        return len(self.cuts) + 1


def body_of(node: NodeProto, which: str) -> GraphProto:
    """The branch of that name."""
    body: GraphProto = next(attribute.g for attribute in node.attribute if attribute.name == which)
    return body


def pieces_of(node: NodeProto, branches: Mapping[str, BranchPieces]) -> list[NodeProto]:
    """The Ifs that together compute what ``node`` computes, in run order.

    Args:
        node: An If.
        branches: What becomes of each of its two branches.
    """
    mark = f"{next(name for name in node.output if name)}/{MARK}"
    num = max(branch.num_pieces for branch in branches.values())
    made: list[NodeProto] = []
    for index in range(num):
        bodies = {
            which: _piece(branch, index - num + branch.num_pieces, f"{mark}-{which}")
            for which, branch in branches.items()
        }
        crossing = {which: [] if index == num - 1 else list(body.output) for which, body in bodies.items()}
        for which, body in bodies.items():
            body.name = f"{mark}-{index}-{which}"
            if index < num - 1:
                del body.output[:]
                for owner, values in crossing.items():
                    body.output.extend(values if owner == which else [_empty(body, value) for value in values])
        outputs = [f"{mark}-{which}/{value.name}" for which, values in crossing.items() for value in values]
        named = list(node.output) if index == num - 1 else outputs
        made.append(helper.make_node("If", list(node.input), named, name=f"{mark}-{index}", **bodies))
    return made


def _piece(branch: BranchPieces, index: int, mark: str) -> GraphProto:
    """Piece ``index`` of a branch as a body, its outputs under the branch's own names; nothing in it if negative."""
    body = GraphProto()
    if index < 0:
        return body
    start, stop = list(pairwise([0, *branch.cuts, branch.graph.num_steps]))[index]
    parts = branch.graph.block(start, stop)
    body.node.extend(branch.body.node[at] for at in parts.operators)
    constants = set(parts.constants)
    body.initializer.extend(tensor for tensor in branch.body.initializer if tensor.name in constants)
    body.sparse_initializer.extend(t for t in branch.body.sparse_initializer if t.values.name in constants)
    inside = set(defined_names(branch.body)) - set(defined_names(body))
    _rename_reads(body.node, {name: f"{mark}/{name}" for name in inside})
    if index < branch.num_pieces - 1:
        body.output.extend(_untyped_shape(branch.types[name]) for name in parts.outputs)
    else:
        _give_outputs(body, branch.body.output, inside, mark)
    return body


def _give_outputs(body: GraphProto, outputs: Iterable[ValueInfoProto], earlier: set[str], mark: str) -> None:
    """Let the last piece give the branch's outputs; what it does not compute itself goes through an Identity."""
    free = {name for node in body.node for name in node.output}
    for place, output in enumerate(outputs):
        given = ValueInfoProto()
        given.CopyFrom(output)
        if output.name in free:
            free.remove(output.name)
        else:
            given.name = f"{mark}/output-{place}"
            made = f"{mark}/{output.name}" if output.name in earlier else output.name
            body.node.append(helper.make_node("Identity", [made], [given.name], name=given.name))
        body.output.append(given)


def _empty(body: GraphProto, value: ValueInfoProto) -> ValueInfoProto:
    """Add an empty tensor of the value's type to a body; returns it as an output."""
    name = f"{body.name}/empty-{len(body.node)}"
    element = value.type.tensor_type.elem_type
    body.node.append(
        helper.make_node("Constant", [], [name], name=name, value=TensorProto(data_type=element, dims=[0]))
    )
    return helper.make_tensor_value_info(name, element, None)


def _untyped_shape(spec: TensorSpec) -> ValueInfoProto:
    return helper.make_tensor_value_info(spec.name, onnx_dtype(spec.dtype), None)


def _rename_reads(nodes: Iterable[NodeProto], names: Mapping[str, str]) -> None:
    """Let nodes read other names, in their subgraphs too, but for names that those define themselves."""
    for node in nodes:
        node.input[:] = [names.get(name, name) for name in node.input]
        for body in subgraphs(node):
            own = set(defined_names(body))
            seen = {name: new for name, new in names.items() if name not in own}
            _rename_reads(body.node, seen)
            for output in body.output:
                output.name = seen.get(output.name, output.name)
