"""The simulator's command: tables, JSON, plots, messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deployments.simulation.__main__ import main
from deployments.simulation.plots import plot_frontier


def test_the_command_prints_a_list_of_results_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--requests", "40", "--seeds", "1", "--load", "0.5", "--load", "0.9", "--json"]
    assert main([*arguments, "--policy", "fifo", "--policy", "slo;admission=anyone_waiting"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert [(each["policy"], each["load"], each["mix"]) for each in results] == [
        ("fifo", 0.5, "poisson"),
        ("slo;admission=anyone_waiting", 0.5, "poisson"),
        ("fifo", 0.9, "poisson"),
        ("slo;admission=anyone_waiting", 0.9, "poisson"),
    ]
    for each in results:
        assert set(each["violation_pct"]) == {"2", "3", "4"}
        assert {"jitter", "max", "mean", "refused_pct"} <= set(each)
        assert each["max"] >= each["mean"] >= 1.0


def test_the_command_prints_tables_and_writes_plots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--models", "a=10,b=2", "--split", "a=4", "--requests", "30", "--seeds", "1", "--by-model"]
    assert main([*arguments, "--policy", "slo", "--plot", str(tmp_path)]) == 0
    assert "late % at 2 / 3 / 4" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"violations_poisson_0.8.png", "slices_poisson_0.8.png"}


def test_the_command_shows_the_gap_to_the_optimum(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--optimum", "2", "--json", "--policy", "slo"]) == 0
    (gap,) = json.loads(capsys.readouterr().out)
    assert gap["requests"] == 16
    assert gap["late"] >= gap["late_optimum"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "lifo"], "no policy or mode 'lifo'"),
        (["--policy", "slo;alfa=2"], "allowed are the options"),
        (["--trace", "nowhere.csv"], "nowhere.csv"),
        (["--plan", "nowhere"], "no split plan"),
        (["--models", "a=1", "--plan", "nowhere"], "not both"),
    ],
)
def test_a_wrong_argument_ends_the_command_with_a_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_frontier_is_drawn(tmp_path: Path) -> None:
    plot_frontier({"slo": [("none", 2.3, 2.7), ("0", 3.4, 1.8)]}, tmp_path / "frontier.png", title="t")
    assert (tmp_path / "frontier.png").stat().st_size > 1000


def test_the_command_shows_how_several_devices_do_by_router(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--requests", "40", "--seeds", "1", "--load", "0.9", "--devices", "1,4", "--plot", str(tmp_path)]
    assert main([*arguments, "--router", "predicted", "--router", "random", "--hop-ms", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(each["num_devices"], each["router"]) for each in rows] == [
        (1, "predicted"),
        (1, "random"),
        (4, "predicted"),
        (4, "random"),
    ]
    assert rows[2]["late_pct"]["2"] < rows[3]["late_pct"]["2"]
    assert rows[0]["hops_pct"] == rows[1]["hops_pct"] == 0
    assert (tmp_path / "scaling.png").is_file()
    assert all(each["num_seeds"] == 1 and each["goodput_ci95"] == each["late_ci95"]["2"] == 0.0 for each in rows)
    assert main(["--devices", "0"]) == 2
    assert "whole numbers above 0" in capsys.readouterr().err


def test_rows_of_several_devices_are_means_over_the_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--requests", "30", "--load", "0.9", "--devices", "2", "--router", "random", "--hop-ms", "2"]
    by_seed = []
    for seed in range(3):
        assert main([*arguments, "--first-seed", str(seed), "--seeds", "1", "--json"]) == 0
        by_seed += json.loads(capsys.readouterr().out)
    assert main([*arguments, "--seeds", "3", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["num_seeds"] == 3
    assert row["goodput_ci95"] > 0.0
    assert row["late_ci95"]["2"] > 0.0
    assert main([*arguments, "--seeds", "3", "--plot", str(tmp_path)]) == 0
    table = capsys.readouterr().out
    assert "mean over 3 seeds" in table
    assert f"{row['late_pct']['2']:.1f} ± {row['late_ci95']['2']:.1f}" in table
