"""Models with stored inputs and outputs, and what became of one that was cut.

A folder of them holds ``cases.json`` (a list of objects with ``id`` and ``random``) and for each id ``ID.onnx``,
``ID.inputs.npz`` and ``ID.outputs.npz``, and a second data set in ``ID.inputs2.npz`` and ``ID.outputs2.npz`` where
there is one. Inputs are stored by name, outputs by place; ``/`` in a name is written ``%2F``, ``name#0`` is an item of
a list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import onnx
import onnxruntime as ort

from split_tool.chain import feeds_to_ort
from split_tool.errors import ModelRefusedError, NotEquivalentError, one_line
from split_tool.inputs import load_samples
from split_tool.sessions import Device, open_session, session_options
from split_tool.source import Source, read_source
from split_tool.values import from_ort
from split_tool.verify import Comparison, with_seeds

DEVICE = Device()

Verdict = Literal["right", "wrong", "unusable", "refused", "crashed"]
"""What became of a model cut in one way.

``right``: the parts in a row give the stored outputs. ``wrong``: they run and give others. ``unusable``: ONNX Runtime
does not load or run them. ``refused``: the tool said that it cannot. ``crashed``: an error inside the tool, or no
answer.
"""

VERDICTS: tuple[Verdict, ...] = ("right", "wrong", "unusable", "refused", "crashed")


class PartsUnusableError(Exception):
    """ONNX Runtime does not load or run the parts; the text is its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model that can be loaded, with what it must give.

    Attributes:
        name: Its id.
        source: The model.
        is_random: It draws random numbers: operators get fixed seeds before running, whoever cut the model.
        feeds: Inputs by name, one entry per data set.
        expected: Outputs in the model's order, likewise.
    """

    name: str
    source: Source
    is_random: bool
    feeds: tuple[Mapping[str, Any], ...]
    expected: tuple[tuple[Any, ...], ...]

    def verdict(self, parts: Sequence[Path], *, is_optimised: bool = False) -> tuple[Verdict, str]:
        """Run the parts in a row, load them as ``is_optimised`` demands, and compare; with a reason unless right."""
        comparison = Comparison.of(self.source.model, self.source.outputs)
        try:
            made = run_parts(parts, self.source, self.feeds, is_random=self.is_random, is_optimised=is_optimised)
            for outputs, expected in zip(made, self.expected, strict=True):
                comparison.add(expected, outputs)
        except PartsUnusableError as error:
            return "unusable", str(error)
        except NotEquivalentError as error:
            return "wrong", str(error)
        return "right", ""


def read_cases(folder: Path, only: Sequence[str] = ()) -> list[Case]:
    """The cases of a folder whose models ONNX Runtime loads; with ``only``, those whose id begins so."""
    cases: list[Case] = []
    for entry in json.loads((folder / "cases.json").read_text(encoding="utf-8")):
        name, is_random = entry["id"], bool(entry["random"])
        if only and not name.startswith(tuple(only)):
            continue
        try:
            source = read_source(folder / f"{name}.onnx")
            cases.append(_read_case(folder, name, source, is_random=is_random))
        except (ModelRefusedError, PartsUnusableError):
            continue
    return cases


def _read_case(folder: Path, name: str, source: Source, *, is_random: bool) -> Case:
    feeds: list[Mapping[str, Any]] = []
    stored: list[Mapping[str, Any]] = []
    for which in ("", "2"):
        inputs, outputs = (folder / f"{name}.{kind}{which}.npz" for kind in ("inputs", "outputs"))
        if outputs.exists() or not which:
            feeds.append(load_samples(inputs) if inputs.exists() else {})
            stored.append(load_samples(outputs) if outputs.exists() and not is_random else {})
    whole = run_parts([source.path], source, feeds, is_random=is_random)
    expected = [
        tuple(kept.get(str(place), value) for place, value in enumerate(values))
        for kept, values in zip(stored, whole, strict=True)
    ]
    return Case(name=name, source=source, is_random=is_random, feeds=tuple(feeds), expected=tuple(expected))


def run_parts(
    parts: Sequence[Path],
    source: Source,
    feeds: Sequence[Mapping[str, Any]],
    *,
    is_random: bool = False,
    is_optimised: bool = False,
) -> list[list[Any]]:
    """The model's outputs for each of ``feeds``, by running model files one after another.

    Each part gets what it asks for by name from the request and the parts before it.

    Raises:
        PartsUnusableError: If ONNX Runtime does not load or run a part, or an output is made by none.
    """
    sessions: list[ort.InferenceSession] = []
    try:
        for part in parts:
            model = with_seeds(onnx.load(part)) if is_random else part
            sessions.append(open_session(model, DEVICE, session_options(DEVICE, optimise=not is_optimised)))
    except Exception as error:  # several unrelated classes, by what is wrong with the file
        raise PartsUnusableError(one_line(error)) from error
    made: list[list[Any]] = []
    for feed in feeds:
        values: dict[str, ort.OrtValue] = dict(feeds_to_ort(feed, source.inputs))
        try:
            for session in sessions:
                names = list(dict.fromkeys(value.name for value in session.get_outputs()))
                given = {value.name: values[value.name] for value in session.get_inputs() if value.name in values}
                values.update(zip(names, session.run_with_ort_values(names, given), strict=True))
        except Exception as error:  # several unrelated classes
            raise PartsUnusableError(one_line(error)) from error
        missing = [spec.name for spec in source.outputs if spec.name not in values]
        if missing:
            raise PartsUnusableError(f"no part gives {', '.join(missing)}")
        made.append([from_ort(values[spec.name], spec) for spec in source.outputs])
    return made
