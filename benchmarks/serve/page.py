"""Everything that a folder of rounds shows: tables on the console, figures as JSON, and the page as PNG and HTML."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.load.report import to_json
from benchmarks.serve.competitors import COMPETITORS
from benchmarks.serve.figures import Figures, make_figures
from benchmarks.serve.pairs import compare
from benchmarks.serve.plots import draw_page
from benchmarks.serve.prediction import predict
from benchmarks.serve.records import Records, Round, Setting
from benchmarks.serve.tables import difference_table, model_tables, overall_tables, prediction_table

OURS = "slo"
_WIDTH = 120
_BUSY = 0.8


def report(records: Records, console: Console, *, json_path: Path | None, policy_options: Mapping[str, object]) -> None:
    """Print and write what the rounds show: figures, differences and predictions as JSON, tables, and the page.

    Args:
        records: At least one round.
        console: For the tables.
        json_path: Where the figures go as well, a list of objects; None: only into the folder.
        policy_options: Of the device, for the simulator.
    """
    rounds, setting = records.rounds(), records.setting()
    assert setting is not None
    figures = make_figures(rounds, setting)
    differences = compare(rounds, setting, ours=OURS)
    predictions = predict(rounds, setting, policy_options)
    tables = overall_tables(figures)
    for load in dict.fromkeys(each.load for each in figures):
        tables += model_tables(figures, load)
    tables += [difference_table(differences)] if differences else []
    tables += [prediction_table(predictions)] if predictions else []
    wide = Console(width=_WIDTH, file=io.StringIO())
    for table in tables:
        console.print(table)
        wide.print(table)
    assert isinstance(wide.file, io.StringIO)
    text = wide.file.getvalue()
    (records.folder / "tables.txt").write_text(text)
    rows_of: dict[str, Sequence[Any]] = {"results": figures, "differences": differences, "predictions": predictions}
    written = {name: json.dumps(to_json(rows), indent=1) + "\n" for name, rows in rows_of.items()}
    for name, content in written.items():
        (records.folder / f"{name}.json").write_text(content)
    if json_path is not None:
        json_path.write_text(written["results"])
    picture = records.folder / "page.png"
    draw_page(picture, rounds, figures, setting, load=_main_load(figures))
    (records.folder / "page.html").write_text(_html(picture.read_bytes(), text, rounds, setting))


def _main_load(figures: list[Figures]) -> float | None:
    """The load that most competitors were measured at; of several the one nearest to what a busy device has."""
    loads = [each.load for each in figures]
    return max(dict.fromkeys(loads), key=lambda load: (loads.count(load), -abs((load or 0.0) - _BUSY)))


def _html(picture: bytes, text: str, rounds: list[Round], setting: Setting) -> str:
    measured = dict.fromkeys(each.competitor for each in rounds)
    lines = "".join(f"<li><b>{html.escape(name)}</b>: {html.escape(COMPETITORS[name].what)}</li>" for name in measured)
    pinned = (
        "inference of every competitor on the device's own cores, everything else on the others"
        if setting.is_pinned
        else "NOT pinned: every server may use all cores"
    )
    facts = (
        f"{setting.date}; {setting.machine}; {setting.device}, {pinned}; {setting.workload}, rounds of "
        f"{setting.seconds:g} s, seed {setting.seed}, over {setting.via}; "
        + ", ".join(f"{package} {version}" for package, version in setting.versions.items())
    )
    encoded = base64.b64encode(picture).decode()
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Live benchmark</title>'
        "<style>body{font-family:sans-serif;max-width:110rem;margin:1rem auto;padding:0 1rem}"
        "img{width:100%}pre{overflow-x:auto;font-size:.8rem}</style>"
        f'<img alt="Late requests, jitter, response times and timelines of all competitors" '
        f'src="data:image/png;base64,{encoded}">'
        f"<ul>{lines}</ul><p>{html.escape(facts)}</p><pre>{html.escape(text)}</pre></html>\n"
    )
