"""Which processor this machine has: what memory layouts and times of a plan depend on."""

from __future__ import annotations

import platform
from pathlib import Path

FEATURES = frozenset(
    (
        *("sse4_1", "avx", "avx2", "fma", "f16c", "avx_vnni"),
        *("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16"),
        *("amx_int8", "amx_bf16", "amx_tile"),
        *("asimd", "asimddp", "asimdhp", "i8mm", "bf16", "sve", "sve2"),
    )
)
"""Instruction sets by which ONNX Runtime chooses its kernels and memory layout."""


def processor_name_and_features() -> tuple[str, tuple[str, ...]]:
    """Name of the processor and its instruction sets, sorted; the latter are known on Linux only."""
    name, flags = platform.processor() or platform.machine(), ""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return name, ()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        elif key.strip() in ("flags", "Features") and not flags:
            flags = value
    return name, tuple(sorted(FEATURES.intersection(flags.split())))
