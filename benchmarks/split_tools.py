"""This split tool beside public ones: every model of a folder, cut at every place, run and compared.

    python -m benchmarks.split_tools --models tests/data/hard
    python -m benchmarks.split_tools --models DIR --venv .venv-tools --only 01,02 --json

Each model (format: ``benchmarks/split_cases.py``) is cut in two at every position where a cut may lie, at most 40 of
them (6 in models of over 1,000 nodes), and the parts run one after another in ONNX Runtime. Tools that extract a part
between named values are told the right names at each position, values captured by inner graphs included; one that
decides by itself where to cut is asked for parts of half and of a quarter of the weights. Every tool gets the same
tolerance, and fixed seeds where a model draws random numbers.

Public tools are no dependencies. Those that can be imported are used; for the others the command says how to install
them, into environments of their own (``--venv DIR``, may be repeated), since their pins contradict each other.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import split_rivals
from benchmarks.split_cases import DEVICE, VERDICTS, Case, Verdict, read_cases
from benchmarks.split_rivals import RIVALS, Rival
from split_tool.chain import feeds_to_ort
from split_tool.cutting import cut_positions
from split_tool.errors import ModelRefusedError
from split_tool.extract import write_block
from split_tool.graph import BlockParts, CutGraph
from split_tool.model_graph import cut_graph
from split_tool.profile import Probe, probe
from split_tool.progress import ProgressBar, Report
from split_tool.sessions import Target, optimised_target, user_target

OWN = "split_tool"
MAX_CUTS, MAX_CUTS_IN_LONG, LONG = 40, 6, 1000
"""Positions per model, and per model of more than so many nodes."""

TIME_LIMIT_S = 300.0
"""A tool that has not answered for a model by then counts as crashed for what is left of it."""

Outcome = tuple[Verdict, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What one tool did with all models.

    Attributes:
        tool: Its name.
        version: Its version.
        call: What of it was used.
        models: Models that were cut.
        right_everywhere: Models right in every way they were cut.
        silently_wrong: Models that gave other outputs than the whole model in some way they were cut.
        ways: Ways to cut, over all models.
        verdicts: How many of them had which verdict.
        reasons: For each model that was not right everywhere, the first reason.
    """

    tool: str
    version: str
    call: str
    models: int
    right_everywhere: int
    silently_wrong: int
    ways: int
    verdicts: dict[str, int]
    reasons: dict[str, str]


def summary(tool: str, version: str, call: str, outcomes: dict[str, list[Outcome]]) -> ToolResult:
    """Count the outcomes, given by model."""
    verdicts = Counter(verdict for ways in outcomes.values() for verdict, _ in ways)
    reasons = {
        name: next(f"{verdict}: {reason}" for verdict, reason in ways if verdict != "right")
        for name, ways in outcomes.items()
        if any(verdict != "right" for verdict, _ in ways)
    }
    return ToolResult(
        tool=tool,
        version=version,
        call=call,
        models=len(outcomes),
        right_everywhere=len(outcomes) - len(reasons),
        silently_wrong=sum(any(verdict == "wrong" for verdict, _ in ways) for ways in outcomes.values()),
        ways=sum(verdicts.values()),
        verdicts={verdict: verdicts[verdict] for verdict in VERDICTS},
        reasons=reasons,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CutCase:
    """A case with the places where it can be cut in one of its graphs."""

    case: Case
    target: Target
    graph: CutGraph
    probe: Probe
    positions: tuple[int, ...]

    def parts(self, position: int) -> list[BlockParts]:
        """What lies before and after the position."""
        return [self.graph.block(0, position), self.graph.block(position, self.graph.num_steps)]


def cut_case(case: Case, target: Target) -> CutCase:
    """Find out where the target can be cut."""
    graph = cut_graph(target.model)
    probed = probe(target, graph, feeds_to_ort(case.feeds[0], case.source.inputs), DEVICE)
    positions, _ = cut_positions(graph, probed)
    limit = MAX_CUTS if graph.num_steps <= LONG else MAX_CUTS_IN_LONG
    step = max(1, -(-len(positions) // limit))
    return CutCase(case=case, target=target, graph=graph, probe=probed, positions=positions[::step])


def own_outcomes(cut: CutCase, folder: Path) -> list[Outcome]:
    """What this split tool makes of every position."""
    outcomes: list[Outcome] = []
    for position in cut.positions:
        files = [folder / f"{position}-{index}.onnx" for index in range(2)]
        try:
            for parts, file in zip(cut.parts(position), files, strict=True):
                write_block(cut.target, parts, cut.probe.types, file)
        except ModelRefusedError as error:
            outcomes.append(("refused", str(error)))
            continue
        outcomes.append(cut.case.verdict(files, is_optimised=cut.target.is_optimised))
    return outcomes


def rival_outcomes(rival: Rival, python: str, cut: CutCase, folder: Path) -> list[Outcome]:
    """What a public tool makes of every position of the user's graph, or of every size where it cuts by size."""
    source = cut.case.source
    if rival.by_size:
        weights_bytes = sum(tensor.ByteSize() for tensor in source.model.graph.initializer)
        ways: list[Any] = [max(1, weights_bytes // share) for share in (2, 4)]
    else:
        ways = [
            [{"inputs": list(part.inputs), "outputs": list(part.outputs)} for part in cut.parts(position)]
            for position in cut.positions
        ]
    request = {"verb": "cut", "tool": rival.name, "model": str(source.path.resolve()), "folder": str(folder)}
    answers = {answer["way"]: answer for answer in _ask(python, {**request, "ways": ways})}
    outcomes: list[Outcome] = []
    for index in range(len(ways)):
        answer = answers.get(index, {"kind": "crashed", "error": "no answer"})
        if "files" in answer:
            outcomes.append(cut.case.verdict([Path(file) for file in answer["files"]]))
        else:
            outcomes.append((answer["kind"], answer["error"]))
    return outcomes


def _ask(python: str, request: dict[str, Any]) -> list[Any]:
    """Answers of the tools in the environment of ``python``; as many as it gave before it died or the time was up."""
    command = [python, split_rivals.__file__]
    try:
        ended = subprocess.run(command, input=json.dumps(request).encode(), capture_output=True, timeout=TIME_LIMIT_S)
        lines = ended.stdout
    except subprocess.TimeoutExpired as error:
        lines = error.stdout or b""
    return [json.loads(line) for line in lines.splitlines() if line.endswith(b"}")]


def _find_rivals(venvs: Sequence[Path]) -> tuple[list[tuple[Rival, str, str]], list[Rival]]:
    """Each tool with its version and the Python that has it, this one first; and those that none has."""
    found: dict[str, tuple[Rival, str, str]] = {}
    for python in [sys.executable, *(str(venv / "bin" / "python") for venv in venvs)]:
        for answer in _ask(python, {"verb": "list"}):
            for name, version in answer.items():
                found.setdefault(name, (RIVALS[name], version, python))
    return [found[name] for name in RIVALS if name in found], [RIVALS[name] for name in RIVALS if name not in found]


def own_results(cases: Sequence[Case], work: Path, report: Report) -> Iterator[ToolResult]:
    """Cut all cases with this tool: the user's graph, and the one that ONNX Runtime has optimised."""
    for kind in ("user", "optimised"):
        outcomes: dict[str, list[Outcome]] = {}
        for number, case in enumerate(cases):
            report(f"{OWN}, {kind} graph", number / len(cases))
            folder = work / kind / case.name
            folder.mkdir(parents=True)
            target = user_target(case.source) if kind == "user" else optimised_target(case.source, DEVICE, folder)
            cut = cut_case(case, target)
            if cut.positions:
                outcomes[case.name] = own_outcomes(cut, folder)
        yield summary(OWN, metadata.version("dlir-serve"), f"{kind} graph", outcomes)


def rival_results(
    cases: Sequence[Case], rivals: Sequence[tuple[Rival, str, str]], work: Path, report: Report
) -> Iterator[ToolResult]:
    """Cut all cases with each public tool."""
    cuts = [cut for case in cases if (cut := cut_case(case, user_target(case.source))).positions] if rivals else []
    for rival, version, python in rivals:
        outcomes: dict[str, list[Outcome]] = {}
        for number, cut in enumerate(cuts):
            report(rival.name, number / len(cuts))
            outcomes[cut.case.name] = rival_outcomes(rival, python, cut, work / rival.name / cut.case.name)
        yield summary(rival.name, version, rival.call, outcomes)


def _table(results: Sequence[ToolResult]) -> Table:
    table = Table(title="cut in two at every position, run, compared with the stored outputs")
    headings = ("tool", "used", "models", "right everywhere", "silently wrong", "cuts", *VERDICTS)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < 2 else "right")
    for row in results:
        cells = (row.models, row.right_everywhere, row.silently_wrong, row.ways, *row.verdicts.values())
        table.add_row(f"{row.tool} {row.version}", row.call, *map(str, cells))
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.split_tools", description="Public tools on hard models.")
    parser.add_argument("--models", type=Path, required=True, metavar="DIR", help="folder with cases.json")
    parser.add_argument("--only", metavar="ID,ID", help="only cases whose id begins so")
    parser.add_argument("--tools", metavar="A,B", help=f"only these: {', '.join((OWN, *RIVALS))}")
    parser.add_argument(
        "--venv", type=Path, action="append", default=[], metavar="DIR", help="environment with public tools"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list, with the reasons, instead of a table")
    options = parser.parse_args(arguments)
    rivals, missing = _find_rivals(options.venv)
    wanted = options.tools.split(",") if options.tools else [OWN, *RIVALS]
    rivals = [item for item in rivals if item[0].name in wanted]
    missing = [rival for rival in missing if rival.name in wanted]
    if missing:
        names = " ".join(rival.name for rival in missing)
        print(
            f"not installed, left out: {names}. To include: python -m venv DIR; DIR/bin/pip install {names}; "
            "and give --venv DIR (more than one DIR where their pins contradict each other)",
            file=sys.stderr,
        )
    cases = read_cases(options.models, options.only.split(",") if options.only else ())
    with tempfile.TemporaryDirectory(prefix="split-tools-") as work, ProgressBar("comparing") as report:
        results = list(own_results(cases, Path(work), report)) if OWN in wanted else []
        results += rival_results(cases, rivals, Path(work), report)
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(_table(results))


if __name__ == "__main__":
    main()
