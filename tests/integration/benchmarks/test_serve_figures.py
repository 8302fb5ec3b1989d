"""Figures, turns, differences and predictions of the live benchmark, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.load.report import Outcome, to_json
from benchmarks.serve.errors import SettingChangedError
from benchmarks.serve.figures import Figures, make_figures
from benchmarks.serve.pairs import compare
from benchmarks.serve.prediction import predict
from benchmarks.serve.records import Records, Round, Setting
from benchmarks.serve.turns import block_times_s, handover_s, lone_path_s
from deployments.runtime.messages import Slice
from deployments.scheduling.request import RequestId

SETTING = Setting(
    isolated_s={"small": 0.1, "large": 1.0},
    alpha={"small": 4.0, "large": 4.0},
    blocks_s={"small": (0.1,), "large": (0.5, 0.5)},
    device="cpu-0",
    is_pinned=True,
    workload="poisson arrivals",
    seconds=10,
    seed=0,
    via="http",
    machine="here",
    versions={},
    date="2026-11-30",
)


def outcome(model: str, at_s: float, took_s: float, failure: str | None = None) -> Outcome:
    return Outcome(model=model, scheduled_s=at_s, sent_s=at_s, finished_s=at_s + took_s, failure=failure)


def turn(request: str, model: str, start_s: float, ends_s: tuple[float, ...], first_block: int = 0) -> Slice:
    return Slice(
        request_id=RequestId(request),
        model=model,
        lease=int(start_s * 1000),
        first_block=first_block,
        start_s=start_s,
        block_ends_s=ends_s,
        end_s=ends_s[-1],
        outcome="finished",
    )


def round_of(competitor: str, number: int, *outcomes: Outcome, slices: tuple[Slice, ...] = ()) -> Round:
    return Round(
        competitor=competitor,
        load=0.8,
        number=number,
        outcomes=outcomes,
        began_s=0.0,
        alone_s={"small": 0.12, "large": 1.1},
        largest_difference=0.0,
        device_busy=0.5,
        other_busy=0.25,
        slices=slices,
        allocator_s=0.01 if slices else None,
    )


SLICES = (
    turn("a", "large", 0.0, (0.4,)),
    turn("b", "small", 0.401, (0.5,)),
    turn("a", "large", 0.502, (1.1,), first_block=1),
    turn("c", "small", 5.0, (5.1,)),
)
ROUND = round_of(
    "slo",
    0,
    outcome("large", 0.0, 1.2),
    outcome("small", 0.3, 0.5),
    outcome("small", 5.0, 0.1),
    outcome("small", 6.0, 0.0, failure="HTTP 503"),
    outcome("small", 6.0, 2.0, failure="ServerDisconnectedError"),
    slices=SLICES,
)


def figures_of(model: str) -> Figures:
    return next(each for each in make_figures([ROUND], SETTING) if each.model == model)


def test_refusals_and_failures_are_counted_apart_and_both_are_late() -> None:
    small = figures_of("small")
    assert (small.num_requests, small.num_refused, small.num_failed) == (4, 1, 1)
    assert small.violations == {"1.2": 0.75, "2": 0.75, "3": 0.75, "4": 0.75, "6": 0.5, "10": 0.5}
    assert (small.ratio_mean, small.ratio_max, small.jitter) == (
        pytest.approx(3),
        pytest.approx(5),
        pytest.approx(2),
    )


def test_throughput_counts_answers_and_goodput_those_that_were_on_time() -> None:
    overall = figures_of("all")
    assert overall.throughput_per_s == pytest.approx(3 / 8)
    assert overall.goodput_per_s == pytest.approx(2 / 8)
    assert not overall.is_99_on_time
    assert figures_of("large").is_99_on_time


def test_the_device_and_its_allocator_are_told_for_all_models_together() -> None:
    overall = figures_of("all")
    assert (overall.device_busy, overall.other_busy, overall.turns_per_request) == (0.5, 0.25, 0.8)
    assert overall.allocator_us_per_turn == pytest.approx(2500)
    assert overall.handover_us == pytest.approx(1500)
    assert figures_of("small").device_busy is None
    assert figures_of("small").alone_ms == pytest.approx(120)


def test_figures_become_a_list_of_json_objects() -> None:
    objects = json.loads(json.dumps(to_json(make_figures([ROUND], SETTING)), allow_nan=False))
    assert [(each["competitor"], each["load"], each["model"]) for each in objects] == [
        ("slo", 0.8, "small"),
        ("slo", 0.8, "large"),
        ("slo", 0.8, "all"),
    ]


def test_a_long_gap_between_turns_is_an_idle_device_and_no_hand_over() -> None:
    assert handover_s(SLICES) == pytest.approx([0.001, 0.002])


def test_block_times_are_means_and_unknown_while_a_block_never_ran() -> None:
    assert block_times_s(SLICES, "large") == pytest.approx((0.4, 0.598))
    assert block_times_s(SLICES, "small") == pytest.approx((0.0995,))
    assert block_times_s(SLICES[2:], "large") is None
    assert block_times_s(SLICES, "nobody") is None


def late(competitor: str, number: int, num_late: int) -> Round:
    times_s = [0.5] * num_late + [0.1] * (10 - num_late)
    return round_of(competitor, number, *(outcome("small", place, took_s) for place, took_s in enumerate(times_s)))


def test_differences_pair_rounds_of_equal_arrivals() -> None:
    rounds = [late("slo", number, 1) for number in range(4)] + [late("fifo", number, 5) for number in range(3)]
    violations = compare(rounds, SETTING, ours="slo")[0]
    assert (violations.figure, violations.other, violations.num_rounds) == ("violation_4x", "fifo", 3)
    assert (violations.ours_value, violations.other_value) == (pytest.approx(0.1), pytest.approx(0.5))
    assert (violations.low, violations.high) == (pytest.approx(-0.4), pytest.approx(-0.4))
    assert violations.reduction == pytest.approx(0.8)


def test_rounds_that_differ_make_the_interval_wide_and_one_round_makes_none() -> None:
    rounds = [late("slo", number, 2) for number in range(5)]
    rounds += [late("fifo", number, num_late) for number, num_late in enumerate((1, 2, 4, 6, 7))]
    violations = compare(rounds, SETTING, ours="slo")[0]
    assert violations.low is not None
    assert violations.high is not None
    assert violations.low < violations.difference < violations.high
    assert compare([rounds[0], rounds[5]], SETTING, ours="slo")[0].low is None


def test_the_prediction_takes_measured_blocks_and_adds_the_path() -> None:
    # large runs 0.4 s and 0.6 s; small, there after 0.11 s, gets in between, and takes 0.1 s and 0.02 s of path
    slices = (turn("a", "large", 0.0, (0.4, 1.0)), turn("b", "small", 2.0, (2.1,)))
    arrivals = (outcome("large", 0.0, 1.3), outcome("small", 0.11, 0.45))
    (prediction,) = predict([round_of("slo", 0, *arrivals, slices=slices)], SETTING, {})
    assert (prediction.simulated, prediction.device_only, prediction.live) == (0.5, 0.0, 0.5)


def test_the_prediction_counts_each_request_with_the_path_of_every_request_that_met_no_other() -> None:
    slices = (turn("a", "small", 0.02, (0.12,)), turn("b", "small", 2.3, (2.4,)))
    arrivals = (outcome("small", 0.0, 0.15), outcome("small", 2.0, 0.45))
    (prediction,) = predict([round_of("slo", 0, *arrivals, slices=slices)], SETTING, {})
    assert (prediction.simulated, prediction.device_only, prediction.live) == (0.5, 0.0, 0.5)


def test_the_prediction_has_the_deadlines_that_the_server_makes_of_its_plans() -> None:
    # small gets in after half of large, on time for who judges; if the server wants it 20 % sooner, it is given up
    slices = (turn("a", "large", 0.0, (0.5, 1.0)), turn("b", "small", 2.0, (2.1,)))
    rounds = [round_of("slo", 0, outcome("large", 0.0, 1.2), outcome("small", 0.25, 0.4), slices=slices)]
    setting = replace(SETTING, alpha={"small": 4.0, "large": 1.12}, planned_s={"small": 0.1, "large": 1.0})
    assert predict(rounds, setting, {})[0].simulated == 0.0
    assert predict(rounds, replace(setting, planned_s={"small": 0.08, "large": 1.0}), {})[0].simulated == 0.5


def test_only_requests_that_met_no_other_show_what_the_path_takes() -> None:
    outcomes = (
        outcome("large", 0.0, 1.2),
        outcome("small", 1.1, 0.3),
        outcome("small", 2.0, 0.15),
        outcome("small", 3.0, 0.5, failure="gone"),
        outcome("small", 4.0, 0.3),
    )
    slices = (
        turn("a", "large", 100.0, (100.5, 101.1)),
        turn("b", "small", 101.2, (101.3,)),
        turn("c", "small", 102.01, (102.11,)),
        turn("d", "small", 104.05, (104.15,)),
    )
    assert lone_path_s(outcomes, slices, began_s=100.0) == pytest.approx([0.05, 0.2])


def test_rounds_survive_on_disk_and_only_those_of_the_same_setting_may_join(tmp_path: Path) -> None:
    records = Records(tmp_path / "new")
    assert records.is_empty
    records.begin(SETTING)
    records.append(ROUND)
    records.append(late("fifo", 0, 2))
    again = Records(tmp_path / "new")
    assert again.rounds() == [ROUND, late("fifo", 0, 2)]
    again.check_same(replace(SETTING, date="2027-01-01", isolated_s={"small": 0.11, "large": 1.0}))
    with pytest.raises(SettingChangedError, match=r"is_pinned = True, now it is False.*--out"):
        again.check_same(replace(SETTING, is_pinned=False))
    with pytest.raises(SettingChangedError, match="models small, large"):
        again.check_same(replace(SETTING, isolated_s={"small": 0.1}))
    again.begin(SETTING)
    assert again.is_empty


def test_who_answers_nothing_is_late_and_has_no_other_figure() -> None:
    rounds = [round_of(name, 0, outcome("small", 0, 1, failure="gone")) for name in ("slo", "fifo")]
    assert [(each.figure, each.ours_value) for each in compare(rounds, SETTING, ours="slo")] == [("violation_4x", 1.0)]
