"""From rounds on disk to tables, files and the page; and times and answers of plain ONNX Runtime."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.load.report import Outcome
from benchmarks.serve.page import report
from benchmarks.serve.peers.spec import PeerSpec
from benchmarks.serve.records import Records, Round, Setting
from benchmarks.serve.reference import largest_difference, measure_references
from deployments.runtime.messages import Slice
from deployments.scheduling.request import RequestId
from tests.models import light_model, random_input, whole_model_outputs

SETTING = Setting(
    isolated_s={"small": 0.01, "large": 0.4},
    alpha={"small": 4.0, "large": 4.0},
    blocks_s={"small": (0.01,), "large": (0.2, 0.2)},
    device="cpu-0",
    is_pinned=True,
    workload="poisson arrivals",
    seconds=2,
    seed=0,
    via="http",
    machine="2 cores",
    versions={"ray": "2.60.0"},
    date="2026-11-30",
)


def round_of(competitor: str, load: float, number: int, small_took_s: float) -> Round:
    """One request of each model in a second, small behind large."""
    turns = [("large", 0.0, 0.4), ("small", 0.4, 0.41)]
    return Round(
        competitor=competitor,
        load=load,
        number=number,
        outcomes=(
            Outcome(model="large", scheduled_s=0.0, sent_s=0.0, finished_s=0.42, failure=None),
            Outcome(model="small", scheduled_s=0.1, sent_s=0.1, finished_s=0.1 + small_took_s, failure=None),
        ),
        began_s=50.0,
        alone_s={"small": 0.02, "large": 0.41},
        largest_difference=0.0,
        device_busy=0.4,
        other_busy=0.2,
        slices=tuple(
            Slice(
                request_id=RequestId(model),
                model=model,
                lease=lease,
                first_block=0,
                start_s=50 + start_s,
                block_ends_s=(50 + end_s,),
                end_s=50 + end_s,
                outcome="finished",
            )
            for lease, (model, start_s, end_s) in enumerate(turns)
        )
        if competitor != "litserve"
        else (),
        allocator_s=None if competitor == "litserve" else 0.001,
    )


def test_rounds_become_tables_files_and_a_page_that_needs_nothing_else(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.begin(SETTING)
    for load in (0.5, 0.8):
        for number in range(2):
            for competitor, took_s in (("slo", 0.02), ("fifo", 0.32), ("parallel", 0.05), ("litserve", 0.03)):
                records.append(round_of(competitor, load, number, took_s))
    console = Console(width=80, file=io.StringIO())
    report(records, console, json_path=tmp_path / "more.json", policy_options={})
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "…" not in text
    for words in ("ray-serve", "unpinned"):
        assert words not in text
    for words in ("hand-", "less by", "simulated"):
        assert words in text
    objects = json.loads((tmp_path / "more.json").read_text())
    assert objects == json.loads((tmp_path / "results.json").read_text())
    late = {(each["competitor"], each["load"]): each["violations"]["4"] for each in objects if each["model"] == "small"}
    assert late["slo", 0.8] == 0.0
    assert late["fifo", 0.8] == late["parallel", 0.8] == 1.0
    predictions = json.loads((tmp_path / "predictions.json").read_text())
    assert [(each["competitor"], each["load"]) for each in predictions] == [
        ("slo", 0.5),
        ("fifo", 0.5),
        ("parallel", 0.5),
        ("slo", 0.8),
        ("fifo", 0.8),
        ("parallel", 0.8),
    ]
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "page.html").read_text()
    assert "data:image/png;base64," in page
    assert "LitServe, one worker per model" in page
    assert 'src="http' not in page


def test_references_are_the_whole_models_answers_and_times() -> None:
    spec = PeerSpec(
        host="127.0.0.1",
        port=0,
        models={"squeezenet": str(light_model("squeezenet"))},
        provider="CPUExecutionProvider",
        session_threads=1,
        workers=1,
        cores=None,
    )
    inputs = random_input("squeezenet")
    reference = measure_references(spec, {"squeezenet": inputs})["squeezenet"]
    assert reference.isolated_s > 0
    wanted = whole_model_outputs("squeezenet", inputs)
    assert largest_difference(wanted, reference.outputs, who="it") == 0.0
    assert all(np.isfinite(array).all() for array in reference.outputs.values())
