"""Arrivals, traces, model tables."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from deployments.simulation.arrivals import SHAPES, ArrivalShape, make_arrivals
from deployments.simulation.contenders import PAPER_CONTENDERS, read_contender
from deployments.simulation.errors import ContenderError, ModelTableError, TraceFormatError, UnknownModelError
from deployments.simulation.models import models_from_plans, models_from_table, paper_models, split_evenly
from deployments.simulation.traces import mixes_in, read_trace
from deployments.simulation.workload import Arrival, make_requests
from split_tool.plan import SCHEMA_VERSION, Block, Cut, MeasuredOn, Proof, SplitPlan

MODELS = list(paper_models().values())
RECORDS = """mode,mix,model,arrival_ms,finish_ms,isolated_ms,execute_ms,block_ms
DLIR,a_b,vgg19,10.0,110.0,50.0,50.0,50.0
DLIR,a_b,yolo,0.0,5.0,10.0,5.0,5.0
FIFO,a_b,yolo,1.0,2.0,10.0,5.0,5.0
DLIR,c_d,yolo,3.0,9.0,10.0,5.0,5.0
"""


@pytest.mark.parametrize("shape", SHAPES)
def test_synthetic_arrivals_have_the_load_that_was_asked_for(shape: str) -> None:
    arrivals = make_arrivals(
        MODELS,
        load=0.8,
        num_per_model=4000,
        seed=3,
        shape=ArrivalShape(shape=shape),  # type: ignore[arg-type]
    )
    isolated_s = {model.name: model.isolated_s for model in MODELS}
    load = sum(isolated_s[each.model] for each in arrivals) / arrivals[-1].arrival_s
    assert load == pytest.approx(0.8, rel=0.12)
    assert arrivals == sorted(arrivals, key=lambda each: each.arrival_s)


def test_the_same_seed_gives_the_same_arrivals() -> None:
    first, second, other = (make_arrivals(MODELS, load=0.8, num_per_model=50, seed=seed) for seed in (1, 1, 2))
    assert first == second
    assert first != other


@pytest.mark.parametrize("cv", [0.5, 3.0])
def test_gamma_gaps_vary_as_much_as_was_asked_for(cv: float) -> None:
    gaps_s = ArrivalShape(shape="gamma", cv=cv).gaps_s(np.random.default_rng(0), 0.1, 50_000)
    assert np.std(gaps_s) / np.mean(gaps_s) == pytest.approx(cv, rel=0.05)


def test_records_of_the_paper_are_read_by_mix_and_recording(tmp_path: Path) -> None:
    path = tmp_path / "records.csv.gz"
    path.write_bytes(gzip.compress(RECORDS.encode()))
    assert mixes_in(path) == ["a_b", "c_d"]
    trace = read_trace(path, mix="a_b")
    assert trace.arrivals == (Arrival(arrival_s=0.0, model="yolo"), Arrival(arrival_s=0.01, model="vgg19"))
    assert trace.isolated_s == {"yolo": 0.01, "vgg19": 0.05}
    assert sorted(trace.ratios) == [1.0, 2.0]
    with pytest.raises(TraceFormatError, match="one of its mixes: a_b, c_d"):
        read_trace(path)
    with pytest.raises(TraceFormatError, match="no recording in mode BNST"):
        read_trace(path, mix="a_b", mode="BNST")


def test_our_own_traces_may_state_priority_and_deadline(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("arrival_ms,model,priority,deadline\n5,a,2,30\n1,b,,\n")
    assert read_trace(path).arrivals == (
        Arrival(arrival_s=0.001, model="b"),
        Arrival(arrival_s=0.005, model="a", priority=2, deadline_s=0.03),
    )


def test_disb_traces_are_read(tmp_path: Path) -> None:
    path = tmp_path / "disb.csv"
    path.write_text("arrival_ms,model,class\n0,a,realtime\n9,b,realtime\n")
    assert [each.model for each in read_trace(path).arrivals] == ["a", "b"]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "arrival_ms,model\nsoon,a\n"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.csv"
    path.write_text(text)
    with pytest.raises(TraceFormatError, match=r"other\.csv"):
        read_trace(path)


def test_models_come_from_a_small_table_and_are_split_evenly_with_the_overhead_of_each_cut() -> None:
    models = models_from_table("a=10, b=4")
    assert models["a"].isolated_s == 0.01
    split = split_evenly(models, "a=4,others=2", cut_overhead_s=0.002)
    assert split["a"].block_times_s == (0.004,) * 4
    assert split["b"].block_times_s == (0.003,) * 2
    assert split_evenly(split, "whole", cut_overhead_s=0.0)["a"].block_times_s == (0.01,)


@pytest.mark.parametrize("text", ["a", "a=", "a=x", "a=-1"])
def test_a_wrong_model_table_is_refused(text: str) -> None:
    with pytest.raises(ModelTableError):
        models_from_table(text)


@pytest.mark.parametrize("text", ["c=2", "a=0", "a=two"])
def test_a_wrong_split_is_refused(text: str) -> None:
    with pytest.raises(ModelTableError):
        split_evenly(models_from_table("a=10"), text, cut_overhead_s=0.0)


def test_an_arrival_of_a_model_without_times_is_refused() -> None:
    with pytest.raises(UnknownModelError, match="known are squeezenetv1"):
        make_requests([Arrival(arrival_s=0.0, model="bert")], paper_models(), alpha=4.0)


def test_a_contender_is_a_policy_or_a_mode_with_settings() -> None:
    contender = read_contender("slo;late_reserve=none;alpha=2;split=vgg19=3,others=2;preemption=auto")
    assert (contender.policy, contender.options) == ("slo", {"late_reserve": None})
    assert (contender.alpha, contender.split, contender.preemption) == (2.0, "vgg19=3,others=2", "auto")
    bnst = read_contender("bnst")
    assert (bnst.policy, bnst.preemption, bnst.split) == ("response_ratio", "never", "whole")
    assert all(read_contender(text) for text in PAPER_CONTENDERS)


@pytest.mark.parametrize("text", ["lifo", "slo;alpha", "slo;preemption=sometimes"])
def test_a_wrong_contender_is_refused(text: str) -> None:
    with pytest.raises(ContenderError, match=text.split(";")[0]):
        read_contender(text)


def test_models_come_from_split_plans_with_their_measured_blocks(tmp_path: Path) -> None:
    block = Block(file="b", sha256="", inputs=(), outputs=(), num_nodes=1, time_ms=4.0, file_bytes=1)
    SplitPlan(
        schema_version=SCHEMA_VERSION,
        model="m",
        source_sha256="",
        inputs=(),
        outputs=(),
        graph="user",
        isolated_ms=7.0,
        chain_ms=8.0,
        blocks=(block, block),
        cuts=(Cut(position=1, tensors=(), crossing_bytes=None),),
        measured_on=MeasuredOn(
            provider="p", runtime="r", num_threads=1, processor="c", processor_features=(), system="s", measured_at="t"
        ),
        proof=Proof(
            verdict="bit-identical",
            num_samples=1,
            seed=0,
            max_abs_difference=0.0,
            max_rel_difference=0.0,
            tolerances=(),
            cause=None,
        ),
    ).save(tmp_path)
    (model,) = models_from_plans([tmp_path]).values()
    assert (model.name, model.isolated_s, model.block_times_s) == ("m", 0.007, (0.004, 0.004))
