"""Exactly one named allocator actor per device: made on demand, restarted if it dies, gone when nobody needs it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray.actor import ActorHandle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from deployments.runtime.allocator_server import AllocatorServer
from deployments.runtime.settings import SWITCH_INTERVAL_S, DeviceSettings
from deployments.scheduling.explanation import Explanation
from deployments.scheduling.request import Request

logger = logging.getLogger(__name__)

NAMESPACE = "dlir-serve"
IDLE_S = 10.0
_ANSWER_LIMIT_S = 20.0


class Allocator:
    """The actor: an ``AllocatorServer`` and a window onto it. Replicas use the socket, not these methods."""

    def __init__(self, settings: DeviceSettings, folder: str) -> None:
        """Serve the device's socket in ``folder``."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._myself = ray.get_runtime_context().current_actor
        self._server = AllocatorServer(settings=settings, folder=Path(folder), on_idle=self._leave, idle_s=IDLE_S)

    def socket_path(self) -> str:
        """Where replicas of the node connect."""
        return str(self._server.socket_path)

    def status(self) -> dict[str, object]:
        """What the device does right now, as plain values."""
        return self._server.status()

    def slices_since(self, num_seen: int = 0) -> list[dict[str, Any]]:
        """Recorded turns after the first ``num_seen``, as plain values (see ``messages.Slice``)."""
        builtins: list[dict[str, Any]] = msgspec.to_builtins(self._server.slices_since(num_seen))
        return builtins

    def explain(self, request: Request) -> Explanation:
        """See ``AllocatorServer.explain``."""
        return self._server.explain(request)

    def _leave(self) -> None:
        """End this actor for good, on the server's thread: nobody was connected for a while."""
        ray.kill(self._myself, no_restart=True)


def actor_name(device: str, node_id: str) -> str:
    """Name of the allocator of a device of a node, in namespace ``dlir-serve``."""
    return f"allocator-{device}-{node_id[:12]}"


def find_or_create(settings: DeviceSettings) -> ActorHandle[Any]:
    """The allocator of this node's device."""
    node_id = ray.get_runtime_context().get_node_id()
    handle: Any = (  # Ray's types do not know what ``get_if_exists`` gives
        ray.remote(Allocator)
        .options(
            name=actor_name(settings.device, node_id),
            namespace=NAMESPACE,
            get_if_exists=True,
            lifetime="detached",
            num_cpus=0,
            max_restarts=-1,
            max_concurrency=4,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        )
        .remote(settings, str(device_folder(settings.device)))
    )
    found: ActorHandle[Any] = handle
    return found


async def explanation(settings: DeviceSettings, request: Request) -> Explanation:
    """Where the time of an answered request went, asked of the device's allocator; one actor call.

    Raises:
        UnknownRequestError: If the allocator no longer knows.
    """
    handle: Any = await asyncio.to_thread(find_or_create, settings)
    found: Explanation = await handle.explain.remote(request)
    return found


def find_socket(settings: DeviceSettings) -> Path:
    """Path of the socket of the device's allocator, which is started where there is none; blocks.

    Raises:
        ray.exceptions.RayError: If the actor is just dying; try again.
    """
    handle: Any = find_or_create(settings)
    paths: list[Any] = ray.get([handle.socket_path.remote()], timeout=_ANSWER_LIMIT_S)
    return Path(paths[0])


def allocators() -> dict[str, ActorHandle[Any]]:
    """All allocators of the cluster by name."""
    found = {}
    for entry in ray.util.list_named_actors(all_namespaces=True):
        if entry["namespace"] == NAMESPACE and entry["name"].startswith("allocator-"):
            with contextlib.suppress(ValueError):
                found[entry["name"]] = ray.get_actor(entry["name"], namespace=NAMESPACE)
    return found


def device_folder(device: str) -> Path:
    """The folder of this node's device: its allocator's socket and what is shared of it."""
    return node_folder() / f"dlir-{device}"


def node_folder() -> Path:
    """The folder of this node's own sockets in the cluster's temporary folder."""
    node_id = ray.get_runtime_context().get_node_id()
    for node in ray.nodes():  # type: ignore[no-untyped-call]
        if node["NodeID"] == node_id:
            return Path(node["ObjectStoreSocketName"]).parent
    raise RuntimeError(f"node {node_id} is not in the cluster (process {os.getpid()})")
