"""What all models of one device share."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import msgspec

from deployments.scheduling.modes import Mode, find_mode

DeviceKind = Literal[
    "cpu", "cuda", "opencl", "tensorrt", "openvino", "migraphx", "qnn", "vitisai", "coreml", "dml", "webgpu"
]

_OF_EACH_MODEL = ("kind", "index", "threads", "cores", "options", "allow_cpu_nodes", "cache")
"""What models of a device with a name of its own may state differently: how each runs its blocks."""

SWITCH_INTERVAL_S = 0.0005
"""How long another thread may hold the interpreter lock that the allocator's or a device thread waits for; Python's own
5 ms are a whole block."""


class DeviceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One device and how turns on it are granted; every replica of the device must state the same.

    Attributes:
        name: Name of the device where models use it in several ways, for example a processor through ONNX Runtime and
            through OpenCL; None: by kind and index.
        kind: What it is, and thereby what runs the blocks (``backends.table``).
        index: Which of them; CPU devices are logical.
        threads: Threads that run one block (CPU), at least 1.
        cores: Processor cores the device is pinned to, as many as ``threads``; None: not pinned.
        options: Options of what runs the blocks, over its own (``backends.providers``), as texts.
        allow_cpu_nodes: Names or operator types of nodes that may run on the processor; others are an error.
        memory_mb: Memory that all models of the device may take together, MiB; None: what the device has, for CUDA, and
            no bound for others.
        cache: Folder for what is compiled for the device; None: ``dlir-serve`` in the user's cache folder.
        mode: Name in ``deployments.scheduling.modes.MODES``.
        policy: Name of a policy instead of the mode's own; None: the mode's.
        policy_options: Options of the policy, by name.
        max_waiting: Requests that may wait for the device; one more is refused.
        max_waiting_per_model: The same for the requests of one model; None: no bound.
        lease_limit_s: A single turn without a boundary that lasts longer is reported, and its replica replaced.
    """

    name: str | None = None
    kind: DeviceKind = "cpu"
    index: int = 0
    threads: int = 1
    cores: tuple[int, ...] | None = None
    options: dict[str, str] = {}
    allow_cpu_nodes: tuple[str, ...] = ()
    memory_mb: int | None = None
    cache: str | None = None
    mode: str = "slo"
    policy: str | None = None
    policy_options: dict[str, float | int | bool | str] = {}
    max_waiting: int = 1000
    max_waiting_per_model: int | None = None
    lease_limit_s: float = 30.0

    @property
    def device(self) -> str:
        """Name of the device on its node: ``cpu-0``, ``cuda-1``, or its own."""
        return self.name or f"{self.kind}-{self.index}"

    @property
    def sharing(self) -> Mode:
        """How the device is shared: the mode, with the policy that was asked for.

        Raises:
            UnknownPolicyError: If there is no such mode.
        """
        mode = find_mode(self.mode)
        return mode if self.policy is None else replace(mode, policy=self.policy)

    def differences(self, other: DeviceSettings) -> str:
        """What models of one device must state alike and do not: ``mode: 'slo' here, 'fifo' there``; else empty."""
        mine, theirs = msgspec.to_builtins(self), msgspec.to_builtins(other)
        if self.name is not None and self.name == other.name:
            mine = {key: value for key, value in mine.items() if key not in _OF_EACH_MODEL}
        return ", ".join(
            f"{key}: {mine[key]!r} here, {theirs[key]!r} there" for key in mine if mine[key] != theirs[key]
        )
