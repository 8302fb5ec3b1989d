"""Offline splitter: an ONNX model in, a split plan and its block files out. Knows nothing of Ray.

``split``, ``run_chain`` and ``SplitPlan`` are here; the names load on first use, so that a server which needs
``split_tool.plan`` alone does not load the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from split_tool.chain import run_chain
    from split_tool.plan import SplitPlan
    from split_tool.splitting import split

__all__ = ["SplitPlan", "run_chain", "split"]

_HOMES = {"SplitPlan": "split_tool.plan", "run_chain": "split_tool.chain", "split": "split_tool.splitting"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
