"""Everything the compiler refuses, one class per situation."""

from __future__ import annotations

from split_tool.errors import SplitToolError


class UnsupportedByCompilerError(SplitToolError):
    """TVM leaves something of a block to its own runtime, which is not there when the block is served."""


class CompilerMissingError(SplitToolError):
    """TVM is not installed, or not with the version of its foreign-function package that it works with."""


class PlanNotCompilableError(SplitToolError):
    """The split plan was cut from a graph that no other compiler understands."""
