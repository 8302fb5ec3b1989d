"""ONNX Runtime sessions that run on the device asked for, or not at all.

ONNX Runtime by itself falls back: a provider that cannot start is left out, and a node that it does not know runs on
the processor, with a copy there and back. Both are errors here, found when the session is made.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import onnxruntime as ort

from deployments.runtime.backends.providers import PROVIDERS, Provider, cache_folder, providers_with_options
from deployments.runtime.cuda_devices import seen_index
from deployments.runtime.errors import DeviceUnavailableError, NodesElsewhereError
from deployments.runtime.settings import DeviceSettings
from split_tool.errors import one_line

_CPU = "CPUExecutionProvider"
_MAX_NAMED = 10


class PlacedNode(NamedTuple):
    """A node of a session, after optimisation, and the provider that runs it."""

    name: str
    op_type: str
    provider: str


def open_session(path: Path, sha256: str, device: DeviceSettings, *, is_optimised: bool) -> ort.InferenceSession:
    """A session on the device.

    Args:
        path: The ONNX file.
        sha256: Its hash, by which a provider's compiled form of it is found again.
        device: Where it runs.
        is_optimised: It comes from an optimised graph and loads with optimisation off.

    Raises:
        DeviceUnavailableError: If ONNX Runtime does not give the device's provider.
        NodesElsewhereError: If it places nodes elsewhere that ``allow_cpu_nodes`` does not name.
    """
    provider = PROVIDERS[device.kind]
    if provider.name not in ort.get_available_providers():
        raise DeviceUnavailableError(
            f"device {device.device} needs {provider.name}, this ONNX Runtime {ort.__version__} has "
            f"{', '.join(ort.get_available_providers())}: {provider.remedy}, or set another kind"
        )
    try:
        if device.threads > 1:
            _share_threads(device.threads)
        options = _session_options(device, is_optimised=is_optimised)
        if provider.has_context_cache:
            path = _with_context_cache(path, sha256, device, options)
        names, provider_options = zip(*providers_with_options(device), strict=True)
        session = ort.InferenceSession(
            path, options, providers=names, provider_options=provider_options, enable_fallback=0
        )
    except Exception as error:  # the runtime raises a dozen unrelated classes
        if provider.name == _CPU:
            raise
        raise DeviceUnavailableError(
            f"{provider.name} of device {device.device} cannot load {path.name}: {one_line(error).rstrip('.')}. "
            f"'python -m serve_app doctor' tells what is missing; {provider.remedy}, or set another kind"
        ) from error
    _check_placement(session, path, device, provider)
    return session


def misplaced(nodes: Iterable[PlacedNode], provider: Provider, allowed: Iterable[str]) -> list[PlacedNode]:
    """The nodes that run on another device than the provider's.

    Args:
        nodes: All nodes of a session.
        provider: What was asked for.
        allowed: Names or operator types of nodes that may run on the processor.
    """
    may = frozenset(allowed)
    return [
        node
        for node in nodes
        if node.provider not in provider.names and not (node.provider == _CPU and may & {node.name, node.op_type})
    ]


def placed_nodes(session: ort.InferenceSession) -> list[PlacedNode]:
    """Where ONNX Runtime has placed each node of a session from ``open_session``."""
    return [
        PlacedNode(name=node.name, op_type=node.op_type, provider=part.ep_name)
        for part in session.get_provider_graph_assignment_info()
        for node in part.get_nodes()
    ]


def _check_placement(session: ort.InferenceSession, path: Path, device: DeviceSettings, provider: Provider) -> None:
    if session.get_providers()[0] != provider.name:
        raise DeviceUnavailableError(
            f"device {device.device} needs {provider.name}, but ONNX Runtime fell back to "
            f"{', '.join(session.get_providers())} for {path.name}: 'python -m serve_app doctor' tells why; "
            f"{provider.remedy}, or set another kind"
        )
    if not (nodes := misplaced(placed_nodes(session), provider, device.allow_cpu_nodes)):
        return
    named = ", ".join(f"{node.name or 'a node without name'} ({node.op_type})" for node in nodes[:_MAX_NAMED])
    more = f" and {len(nodes) - _MAX_NAMED} more" if len(nodes) > _MAX_NAMED else ""
    types = ", ".join(sorted({node.op_type for node in nodes}))
    raise NodesElsewhereError(
        f"of {path.name}, ONNX Runtime places {len(nodes)} nodes on {', '.join(sorted({n.provider for n in nodes}))} "
        f"and not on device {device.device} ({provider.name}): {named}{more}. Each costs a copy there and back: change "
        f"the model, use another kind of device, or accept them with allow_cpu_nodes: [{types}] in the device section"
    )


def _session_options(device: DeviceSettings, *, is_optimised: bool) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = device.threads
    options.inter_op_num_threads = 1
    options.use_per_session_threads = device.threads == 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if device.kind in ("cpu", "cuda"):
        _register_shared_arena(device.kind, seen_index(device), device.memory_mb)
        options.add_session_config_entry("session.use_env_allocators", "1")
    if device.kind == "dml":  # it supports nothing else
        options.enable_mem_pattern = False
    if is_optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def _with_context_cache(path: Path, sha256: str, device: DeviceSettings, options: ort.SessionOptions) -> Path:
    """What to load: the compiled form of the file if it is there; else the file, and the form is kept from then on."""
    compiled = cache_folder(device) / f"{sha256}.onnx"
    if compiled.exists():
        return compiled
    compiled.parent.mkdir(parents=True, exist_ok=True)
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_embed_mode", "1")
    options.add_session_config_entry("ep.context_file_path", str(compiled))
    return path


@functools.cache
def _register_shared_arena(kind: str, index: int, memory_mb: int | None) -> None:
    """One memory arena for all sessions of this process: what one block frees is warm when the next one asks."""
    arena = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    if kind == "cpu":
        ort.create_and_register_allocator(ort.OrtMemoryInfo("Cpu", arena, 0, ort.OrtMemType.DEFAULT), None)
        return
    limits = {"arena_extend_strategy": 1} | ({} if memory_mb is None else {"max_mem": memory_mb << 20})
    where = ort.OrtMemoryInfo("Cuda", arena, index, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator_v2(
        PROVIDERS["cuda"].name, where, {"device_id": str(index)}, ort.OrtArenaCfg(limits)
    )


_num_shared_threads: int | None = None


def _share_threads(num_threads: int) -> None:
    """One thread pool for all sessions of this process; ONNX Runtime takes its size once, before the first session."""
    global _num_shared_threads
    if _num_shared_threads is None:
        ort.set_global_thread_pool_sizes(num_threads, 1)
        _num_shared_threads = num_threads
