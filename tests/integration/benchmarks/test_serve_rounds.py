"""The order of rounds, the command line, and what is told to other servers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.serve.competitors import COMPETITORS
from benchmarks.serve.errors import OutputsDifferError
from benchmarks.serve.observe import Clocks, busy_share
from benchmarks.serve.options import parse_options
from benchmarks.serve.peers.spec import decode_tensors, encode_tensors
from benchmarks.serve.reference import largest_difference
from benchmarks.serve.rounds import order_starts
from deployments.scheduling.modes import MODES
from serve_app.protocol.client_codec import decode_infer_response, encode_infer_request

ALL = tuple(COMPETITORS.values())


def test_every_round_has_every_competitor_once_in_an_order_of_its_own() -> None:
    starts = order_starts(ALL, loads=(0.8, 1.1), num_rounds=5, seed=0, done=set())
    orders = [[start.competitor.name for start in starts if start.number == number] for number in range(5)]
    assert [start.number for start in starts] == sorted(start.number for start in starts)
    assert all(sorted(order) == sorted(COMPETITORS) for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert starts == order_starts(tuple(reversed(ALL)), loads=(0.8, 1.1), num_rounds=5, seed=0, done=set())


def test_what_is_done_already_is_left_out() -> None:
    done = {("slo", 0.8, 0), ("fifo", 0.8, 0), ("fifo", 1.1, 0)}
    starts = order_starts(ALL[:2], loads=(0.8, 1.1), num_rounds=1, seed=0, done=done)
    assert [(start.competitor.name, start.loads) for start in starts] == [("slo", (1.1,))]


def test_all_modes_of_the_system_and_three_others_are_measured_by_default() -> None:
    options = parse_options([])
    names = [competitor.name for competitor in options.competitors]
    assert set(names) == {*MODES, "ray-serve", "ray-serve-4", "litserve"}
    assert (options.num_rounds, options.loads, options.is_pinned) == (5, (0.8,), True)


def test_only_own_modes_can_be_reached_over_grpc_and_handles() -> None:
    assert {each.name for each in parse_options(["--via", "grpc"]).competitors} == set(MODES)
    with pytest.raises(SystemExit):
        parse_options(["--via", "handle", "--competitor", "litserve"])


@pytest.mark.parametrize(
    "arguments",
    [["--competitor", "nobody"], ["--load", "0"], ["--source", "trace"], ["--map", "vgg19"], ["--seconds", "-1"]],
)
def test_senseless_options_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options(arguments)
    assert "error:" in capsys.readouterr().err


def test_a_trace_and_the_names_in_it_come_from_the_command_line() -> None:
    options = parse_options(["--source", "trace", "--trace", "a.csv", "--map", "bert=small", "--load", "0.5"])
    assert (options.workload.trace, options.workload.names) == (Path("a.csv"), {"bert": "small"})
    assert options.loads == (0.5,)


def test_a_peer_reads_our_requests_and_we_read_its_answers() -> None:
    inputs = {
        "pixels": np.arange(6, dtype=np.float32).reshape(1, 2, 3),
        "ids": np.array([[3, -1]], dtype=np.int64),
        "text": np.array(["a", "höher"], dtype=object),
    }
    read = decode_tensors(encode_infer_request(inputs).body)
    assert list(read) == list(inputs)
    for name, array in inputs.items():
        np.testing.assert_array_equal(read[name], array)
    outputs = {"y": np.array([[0.5, np.nan]], dtype=np.float32), "n": np.array(3, dtype=np.int64)}
    body, headers = encode_tensors(outputs)
    answer = decode_infer_response(body, int(headers["inference-header-content-length"]))
    for name, array in outputs.items():
        np.testing.assert_array_equal(answer[name], array)


def test_answers_are_compared_bit_by_bit_then_by_the_largest_value() -> None:
    wanted = {"y": np.array([1.0, 100.0, np.nan], dtype=np.float32)}
    assert largest_difference(wanted, {"y": wanted["y"].copy()}, who="x") == 0.0
    other = {"y": np.array([1.0, 100.0], dtype=np.float32)}
    close = {"y": np.array([1.01, 100.0], dtype=np.float32)}
    assert largest_difference(other, close, who="x") == pytest.approx(1e-4, rel=0.01)
    for wrong in ({"y": other["y"] * 2}, {"z": other["y"]}, {"y": other["y"][:1]}, {"y": np.array([1, 100])}):
        with pytest.raises(OutputsDifferError, match="resnet50 of litserve answers"):
            largest_difference(other, wrong, who="resnet50 of litserve")


def test_the_busy_share_is_that_of_the_chosen_cores() -> None:
    before = Clocks(busy_s=(1.0, 10.0, 0.0), total_s=(5.0, 20.0, 0.0))
    after = Clocks(busy_s=(2.0, 14.0, 0.0), total_s=(7.0, 24.0, 4.0))
    assert busy_share(before, after, [0]) == 0.5
    assert busy_share(before, after, [1, 2]) == 0.5
    assert busy_share(before, after, []) is None
