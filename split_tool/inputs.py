"""What people give on the command line about inputs: shapes, and files with real values."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from split_tool.errors import OptionError


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shapes from ``name=1x3x224x224`` (also with commas); ``name=`` is a scalar.

    Raises:
        OptionError: If a text is no name and shape.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, equals, shape = text.rpartition("=")
        try:
            axes = tuple(int(axis) for axis in shape.replace(",", "x").split("x")) if shape else ()
        except ValueError:
            axes = (-1,)
        if not equals or not name or any(axis < 0 for axis in axes):
            raise OptionError(f"--input {text}: write it as name=1x3x224x224")
        shapes[name] = axes
    return shapes


def load_samples(path: Path) -> dict[str, Any]:
    """Inputs from an ``.npz`` file: one array per name; ``name#0``, ``name#1`` are items of a sequence.

    Raises:
        OptionError: If the file cannot be read as such.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name.replace("%2F", "/"): archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile, AttributeError) as error:
        raise OptionError(f"cannot read sample inputs from {path}: {error}") from error
    samples: dict[str, Any] = {}
    for name, array in arrays.items():
        item_of, mark, index = name.rpartition("#")
        if mark and index.isdigit():
            samples.setdefault(item_of, []).append(array)
        else:
            samples[name] = array.astype(object) if array.dtype.kind == "U" else array
    return samples
