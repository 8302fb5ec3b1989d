"""Times one operator alone, whole and in parts, on random values of the shapes seen while probing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from onnx import NodeProto, TensorProto, ValueInfoProto, helper

from split_tool.chain import Chain
from split_tool.cutting import Cutting
from split_tool.plan import TensorSpec
from split_tool.sessions import Device, open_session, session_options
from split_tool.slice_parts import SlicedNode, Slicing
from split_tool.slice_ways import NCHWC_DOMAIN
from split_tool.slicing import slice_node, slices_file
from split_tool.standalone import part_of
from split_tool.values import to_ort

ROUNDS = 5
FLOATS = ("float32", "float64", "float16")

Shape = tuple[int | str | None, ...] | None
"""Open axes are None or a name; None as a whole if not even the rank is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceBench:
    """What operators of one graph are measured with.

    Attributes:
        cutting: The graph.
        tensors: Its dense initializers.
        shapes: Shape of everything an operator can read at run time, as far as the graph fixes it.
    """

    cutting: Cutting
    tensors: Mapping[str, TensorProto]
    shapes: Mapping[str, Shape]

    @classmethod
    def of(cls, cutting: Cutting) -> SliceBench:
        """The bench for a graph."""
        graph = cutting.target.model.graph
        shapes: dict[str, Shape] = {}
        for value in graph.input:
            if value.type.tensor_type.HasField("shape"):
                dims = value.type.tensor_type.shape.dim
                shapes[value.name] = tuple(d.dim_value if d.HasField("dim_value") else None for d in dims)
        shapes.update({name: spec.shape for name, spec in cutting.probe.types.items() if spec.kind == "tensor"})
        return cls(cutting=cutting, tensors={tensor.name: tensor for tensor in graph.initializer}, shapes=shapes)

    def can_measure(self, node: NodeProto) -> bool:
        """True if all that the node reads at run time are floats."""
        return all(spec.dtype in FLOATS for spec in self._specs(node))

    def times_ms(self, node: NodeProto, slicings: Sequence[Slicing | None]) -> list[float]:
        """Time of the operator, whole (None) or sliced, in turns; the quietest of some runs.

        Raises:
            ModelRefusedError: If ONNX Runtime does not load it.
        """
        chains = [self._chain(node, slicing) for slicing in slicings]
        random = np.random.default_rng(0)
        feeds = {}
        for spec in self._specs(node):
            axes = [axis for axis in spec.shape or () if isinstance(axis, int)]
            feeds[spec.name] = to_ort(np.asarray(random.standard_normal(axes)).astype(spec.dtype), spec)
        best_s = [math.inf] * len(chains)
        for round_index in range(ROUNDS + 1):
            for which, chain in enumerate(chains):
                run_s = sum(chain.run_timed(feeds, []))
                if round_index:
                    best_s[which] = min(best_s[which], run_s)
        return [1000 * time_s for time_s in best_s]

    def _chain(self, node: NodeProto, slicing: Slicing | None) -> Chain:
        target, device = self.cutting.target, self.cutting.device
        with slices_file(target) as beside:
            parts = SlicedNode(nodes=[node])
            if slicing is not None:
                parts = slice_node(node, slicing, self.tensors, target, channel_block(device), beside)
            alone = part_of(target, parts.nodes, self._specs(node))
            alone.model.graph.initializer.extend(parts.tensors)
            return Chain([alone.model], device, is_optimised=target.is_optimised, external_folder=target.folder)

    def _specs(self, node: NodeProto) -> list[TensorSpec]:
        """What the node reads at run time, with the shapes seen while probing; open axes of model inputs count as 1."""
        specs: list[TensorSpec] = []
        for name in dict.fromkeys(node.input):
            if not name or name in self.tensors:
                continue
            seen = self.cutting.probe.shapes.get(name)
            if seen is None:
                seen = tuple(axis if isinstance(axis, int) and axis > 0 else 1 for axis in self.shapes.get(name) or ())
            known = self.cutting.probe.types.get(name)
            specs.append(TensorSpec(name=name, dtype=known.dtype if known else "float32", shape=seen))
        return specs


@cache
def channel_block(device: Device) -> int:
    """How many channels of a pixel lie side by side in the runtime's blocked layout on this processor."""
    node = helper.make_node("ReorderInput", ["x"], ["y"], domain=NCHWC_DOMAIN)
    graph = helper.make_graph(
        [node], "layout", [helper.make_tensor_value_info("x", 1, [1, 64, 1, 2])], [ValueInfoProto(name="y")]
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(NCHWC_DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    pixels = np.repeat(np.asarray([[[[0.0, 1.0]]]], dtype=np.float32), 64, axis=1)
    session = open_session(model, device, session_options(device, optimise=False))
    (moved,) = session.run(None, {"x": pixels})
    return int(np.argmax(moved.ravel() > 0))
