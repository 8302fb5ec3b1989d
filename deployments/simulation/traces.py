"""Reads recorded arrivals.

Three forms, told apart by their header:

- the records of SPLIT (``mode,mix,model,arrival_ms,...``), one mode and mix of which is taken;
- DISB (``arrival_ms,model,class``);
- our own CSV: ``arrival_ms,model,priority,deadline``, the last two columns optional and their values may be empty:
  priority is a level from 1 (highest), deadline the milliseconds after arrival.

Files may be compressed with gzip (``.gz``).
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TextIO

from deployments.simulation.errors import TraceFormatError
from deployments.simulation.workload import Arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Arrivals from a file.

    Attributes:
        name: What to call it in a table: the mix, or the file's name.
        arrivals: In arrival order.
        isolated_s: Isolated time in seconds by model, for models whose time the file states.
        ratios: Response ratios that the original system recorded; empty where the file has none.
    """

    name: str
    arrivals: tuple[Arrival, ...]
    isolated_s: dict[str, float]
    ratios: tuple[float, ...] = ()


def read_trace(path: Path, *, mix: str | None = None, mode: str = "DLIR") -> Trace:
    """The arrivals in a file.

    Args:
        path: Trace file.
        mix: SPLIT records only: which mix; None if there is one only.
        mode: SPLIT records only: the recording to take the arrivals from.

    Raises:
        TraceFormatError: If the file has another form, or not that mix.
    """
    rows = list(_rows(path))
    if not rows:
        raise TraceFormatError(str(path), "has no rows")
    if "mix" in rows[0]:
        return _split_records(path, rows, mix, mode)
    if "arrival_ms" not in rows[0] or "model" not in rows[0]:
        raise TraceFormatError(str(path), "needs the columns arrival_ms and model")
    arrivals = [
        Arrival(
            arrival_s=_number(path, number, row, "arrival_ms") / 1e3,
            model=row["model"],
            priority=int(row["priority"]) if row.get("priority") else None,
            deadline_s=_number(path, number, row, "deadline") / 1e3 if row.get("deadline") else None,
        )
        for number, row in enumerate(rows, start=2)
    ]
    return Trace(name=path.name, arrivals=_in_order(arrivals), isolated_s={})


def mixes_in(path: Path) -> list[str]:
    """The mixes of a file of SPLIT records, in order; empty for other files."""
    return list(dict.fromkeys(row["mix"] for row in _rows(path) if "mix" in row))


def _split_records(path: Path, rows: list[dict[str, str]], mix: str | None, mode: str) -> Trace:
    mixes = list(dict.fromkeys(row["mix"] for row in rows))
    if mix is None and len(mixes) == 1:
        mix = mixes[0]
    if mix not in mixes:
        raise TraceFormatError(str(path), f"state one of its mixes: {', '.join(mixes)} (not {mix})")
    chosen = [row for row in rows if row["mix"] == mix and row["mode"] == mode]
    if not chosen:
        raise TraceFormatError(str(path), f"has no recording in mode {mode}")
    isolated_ms = defaultdict(list)
    ratios = []
    for row in chosen:
        isolated_ms[row["model"]].append(float(row["isolated_ms"]))
        ratios.append(max(1.0, (float(row["finish_ms"]) - float(row["arrival_ms"])) / float(row["isolated_ms"])))
    return Trace(
        name=mix,
        arrivals=_in_order([Arrival(arrival_s=float(row["arrival_ms"]) / 1e3, model=row["model"]) for row in chosen]),
        isolated_s={model: median(times_ms) / 1e3 for model, times_ms in isolated_ms.items()},
        ratios=tuple(ratios),
    )


def _rows(path: Path) -> Iterator[dict[str, str]]:
    open_text: Callable[..., TextIO] = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", newline="") as file:
        yield from csv.DictReader(file)


def _number(path: Path, line: int, row: dict[str, str], column: str) -> float:
    try:
        return float(row[column])
    except (TypeError, ValueError) as error:
        raise TraceFormatError(str(path), f"line {line}: {column} is {row[column]!r}, needed is a number") from error


def _in_order(arrivals: list[Arrival]) -> tuple[Arrival, ...]:
    return tuple(sorted(arrivals, key=lambda arrival: arrival.arrival_s))
