"""What a target's values weigh and what its operators cost: one probing run, one profiled session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import ModelProto

from split_tool.graph import CutGraph
from split_tool.plan import TensorSpec
from split_tool.sessions import Device, Target, open_session, probing_model, run_session, session_options
from split_tool.turns import turn
from split_tool.values import size_bytes, spec_from_runtime

NUM_PROFILE_RUNS = 5
MIN_STEP_MS = 0.001
"""No step counts as free: the profiler sees nothing of operators that the runtime rewrites while loading."""

NODE_PREFIX = "split-tool-node-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The values that can cross a cut, as the runtime sees them.

    Attributes:
        types: By name; the declared shape is the runtime's own inference, dynamic axes stay dynamic. Values whose
            type no plan can name are missing.
        shapes: Shapes seen in the probing run; None for what is no tensor.
        sizes: Bytes in the probing run; None where that means nothing.
    """

    types: Mapping[str, TensorSpec]
    shapes: Mapping[str, tuple[int, ...] | None]
    sizes: Mapping[str, int | None]


def probe(target: Target, graph: CutGraph, feeds: Mapping[str, ort.OrtValue], device: Device) -> Probe:
    """Types, shapes and sizes of all values that cross some cut; holds all of them in memory at once.

    Raises:
        ModelRefusedError: If ONNX Runtime cannot load or run the target.
    """
    names = list(graph.lifetimes())
    model = probing_model(target, names)
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    session = open_session(model, device, session_options(device, optimise=False), external_folder=target.folder)
    reported = {value.name: value for value in session.get_outputs()}
    types: dict[str, TensorSpec] = {}
    for name in names:
        spec = spec_from_runtime(name, reported[name].type, reported[name].shape)
        if spec is not None:
            types[name] = spec
    values = run_session(session, names, feeds) if names else {}
    return Probe(
        types=types,
        shapes={n: tuple(v.shape()) if v.has_value() and v.is_tensor() else None for n, v in values.items()},
        sizes={name: size_bytes(value) for name, value in values.items()},
    )


def step_costs_ms(
    target: Target, graph: CutGraph, feeds: Mapping[str, ort.OrtValue], device: Device, work: Path
) -> tuple[float, ...]:
    """Median time of each step in ONNX Runtime's own profile: a first estimate, corrected by measured blocks.

    Raises:
        ModelRefusedError: If ONNX Runtime cannot load or run the target.
    """
    model = ModelProto()
    model.CopyFrom(target.model)
    for index, node in enumerate(model.graph.node):
        node.name = f"{NODE_PREFIX}{index}"
    options = session_options(device, optimise=False)
    options.enable_profiling = True
    options.profile_file_prefix = str(work / "profile")
    session = open_session(model, device, options, external_folder=target.folder)
    names = list(dict.fromkeys(value.name for value in model.graph.output))
    for _ in range(NUM_PROFILE_RUNS + 1):
        with turn():
            run_session(session, names, feeds)
    times = _times_by_node(Path(session.end_profiling()))
    return tuple(max(times.get(index, 0.0), MIN_STEP_MS) for index in graph.steps)


def _times_by_node(file: Path) -> dict[int, float]:
    """Median time in ms per node of the main graph, from a profile file; the first run is warm-up."""
    found: dict[int, list[float]] = {}
    for event in json.loads(file.read_text(encoding="utf-8", errors="replace")):
        name = event.get("name", "")
        if event.get("cat") == "Node" and name.startswith(NODE_PREFIX) and name.endswith("_kernel_time"):
            index = int(name[len(NODE_PREFIX) : -len("_kernel_time")])
            found.setdefault(index, []).append(event["dur"] / 1000)
    return {index: float(np.median(times[-NUM_PROFILE_RUNS:])) for index, times in found.items()}
