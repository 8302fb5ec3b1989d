"""Everything the split tool refuses, one class per situation."""

from __future__ import annotations

import re


class SplitToolError(Exception):
    """Base of all errors of this package; the message says what to do."""


class PlanNotFoundError(SplitToolError):
    """There is no split plan in the folder."""


class PlanInvalidError(SplitToolError):
    """The plan file cannot be read, or has another schema version."""


class PlanMismatchError(SplitToolError):
    """A file beside the plan is not the one that the plan was made with."""


class ModelRefusedError(SplitToolError):
    """The model cannot be split (or not even loaded); nothing was written."""


class NotEquivalentError(SplitToolError):
    """The chain of blocks does not give what the whole model gives."""


class OptionError(SplitToolError):
    """An option, or a combination of options, makes no sense."""


class FolderOccupiedError(SplitToolError):
    """The output folder holds something that must not be overwritten."""


class InputsNotFoundError(SplitToolError):
    """No generated input was accepted by the model; somebody must give sample inputs."""


def one_line(error: Exception) -> str:
    """The text of an error in one line, at most 300 characters, without the runtime's own source locations."""
    text = " ".join(str(error).split()).removeprefix("[ONNXRuntimeError] : ")
    text = re.sub(r"^\d+ : [A-Z_]+ : ", "", text)
    text = re.sub(r"/onnxruntime_src/\S+:\d+ .*?\) (?=[A-Z])", "", text)
    return text if len(text) <= 300 else text[:297] + "..."
