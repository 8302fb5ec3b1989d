"""Public tools that cut ONNX models, each used as its documentation teaches.

This file runs in whatever Python has the tools installed (they pin versions that contradict each other and ours), as a
program of its own: a request on standard input, a line of JSON per way to cut on standard output. It imports nothing
but the standard library until a tool is asked for.

    {"verb": "list"}                                                                     -> {"onnx-ir": "1.1.0", ...}
    {"verb": "cut", "tool": "onnx-ir", "model": FILE, "folder": DIR, "ways": [[PART, ...], ...]}
                                              -> {"way": 0, "files": [...]} or {"way": 0, "error": "...", "kind": ...}

A way is a list of parts, each ``{"inputs": [...], "outputs": [...]}``; for a tool that cuts by size it is a size in
bytes. ``kind`` is ``refused`` for an error that tells its user something, ``crashed`` for one inside the tool.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

INTERNAL_ERRORS = (AttributeError, IndexError, KeyError, NameError, RecursionError, TypeError)
"""Exceptions that say that a tool met what its author did not think of."""


@dataclass(frozen=True)
class Rival:
    """A public tool.

    Attributes:
        name: Its name in the package index, which installs it.
        call: What of it is called, for the table.
        module: What it is imported as.
        cut: Makes the files of one way; see the functions below.
        by_size: It decides itself where to cut, for a wanted size of the parts.
    """

    name: str
    call: str
    module: str
    cut: Callable[[str, Any, Path], list[str]]
    by_size: bool = False


def _each(extract: Callable[[str, list[str], list[str], str], None]) -> Callable[[str, Any, Path], list[str]]:
    """Cut by extracting one part after another, given the names at its borders."""

    def cut(model: str, parts: Sequence[dict[str, list[str]]], folder: Path) -> list[str]:
        files = [str(folder / f"{index}.onnx") for index in range(len(parts))]
        for part, file in zip(parts, files):  # noqa: B905 - runs in older Pythons too
            extract(model, part["inputs"], part["outputs"], file)
        return files

    return cut


def _onnx(model: str, inputs: list[str], outputs: list[str], file: str) -> None:
    from onnx.utils import extract_model

    extract_model(model, file, inputs, outputs)


@cache
def _read_onnx_ir(model: str) -> Any:
    whole = importlib.import_module("onnx_ir").load(model)
    importlib.import_module("onnx_ir.passes.common").ShapeInferencePass()(whole)  # parts need types at their borders
    return whole


def _onnx_ir(model: str, inputs: list[str], outputs: list[str], file: str) -> None:
    ir = importlib.import_module("onnx_ir")
    whole = _read_onnx_ir(model)
    graph = ir.convenience.extract(whole.graph, inputs, outputs)
    functions = list(whole.functions.values())
    ir.save(ir.Model(graph, ir_version=whole.ir_version, functions=functions), file)


@cache
def _read_with_shapes(model: str) -> Any:
    import onnx

    return onnx.shape_inference.infer_shapes(onnx.load(model))


def _graphsurgeon(model: str, inputs: list[str], outputs: list[str], file: str) -> None:
    import onnx

    gs = importlib.import_module("onnx_graphsurgeon")
    graph = gs.import_onnx(_read_with_shapes(model))
    tensors = graph.tensors()
    graph.inputs = [tensors[name] for name in inputs]
    graph.outputs = [tensors[name] for name in outputs]
    graph.cleanup()
    onnx.save(gs.export_onnx(graph), file)


def _onnx_diagnostic(model: str, inputs: list[str], outputs: list[str], file: str) -> None:
    import onnx

    helper = importlib.import_module("onnx_diagnostic.helpers.onnx_helper")
    onnx.save(helper.select_model_inputs_outputs(onnx.load(model), outputs=outputs, inputs=inputs), file)


def _sne4onnx(model: str, inputs: list[str], outputs: list[str], file: str) -> None:
    importlib.import_module("sne4onnx").extraction(
        input_op_names=inputs, output_op_names=outputs, input_onnx_file_path=model, output_onnx_file_path=file
    )


def _ssp4onnx(model: str, size: Any, folder: Path) -> list[str]:
    files: list[str] = importlib.import_module("ssp4onnx").split(
        input_onnx_file_path=model, auto_split_max_size=f"{size / 1024:.6f}KB", output_dir=str(folder)
    )
    if len(files) < 2:
        raise ValueError("saved as a single part")
    return files


RIVALS = {
    rival.name: rival
    for rival in (
        Rival("onnx", "onnx.utils.extract_model", "onnx", _each(_onnx)),
        Rival("onnx-ir", "onnx_ir.convenience.extract", "onnx_ir", _each(_onnx_ir)),
        Rival("onnx-graphsurgeon", "isolating a subgraph", "onnx_graphsurgeon", _each(_graphsurgeon)),
        Rival("onnx-diagnostic", "select_model_inputs_outputs", "onnx_diagnostic", _each(_onnx_diagnostic)),
        Rival("sne4onnx", "extraction", "sne4onnx", _each(_sne4onnx)),
        Rival("ssp4onnx", "split, by size of weights", "ssp4onnx", _ssp4onnx, by_size=True),
    )
}


def _installed() -> dict[str, str]:
    """Version of each tool that can be imported here."""
    found = {}
    for rival in RIVALS.values():
        try:
            importlib.import_module(rival.module)
            found[rival.name] = metadata.version(rival.name)
        except ImportError:  # PackageNotFoundError is one
            continue
    return found


def answer_ways(rival: Rival, request: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
    """Let the tool cut in each way asked for, into a folder each, and ``say`` what became of it."""
    for index, way in enumerate(request["ways"]):
        folder = Path(request["folder"]) / str(index)
        folder.mkdir(parents=True)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                files = rival.cut(request["model"], way, folder)
            say({"way": index, "files": files})
        except SystemExit:
            say({"way": index, "kind": "refused", "error": _one_line(printed.getvalue())})
        except Exception as error:
            is_internal = isinstance(error, INTERNAL_ERRORS) or not str(error)
            kind = "crashed" if is_internal else "refused"
            say({"way": index, "kind": kind, "error": f"{type(error).__name__}: {_one_line(str(error))}"})


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    answers = sys.stdout

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    if request["verb"] == "list":
        with contextlib.redirect_stdout(sys.stderr):
            found = _installed()
        say(found)
    else:
        answer_ways(RIVALS[request["tool"]], request, say)


if __name__ == "__main__":
    main()
