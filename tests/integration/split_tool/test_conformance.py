"""The node test cases that the ``onnx`` package builds in memory: every one of several nodes, cut at every position.

One of ten by default; all with ``SPLIT_CONFORMANCE=all`` in the environment, or with ``3/60`` the third of 60 shares.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import pytest

from split_tool.errors import ModelRefusedError, NotEquivalentError
from split_tool.scope import Functions
from split_tool.sessions import open_session, session_options
from split_tool.source import Source, read_source
from split_tool.verify import Comparison, coarsest_float, is_quantised
from tests.integration.split_tool.cut_everywhere import DEVICE, outputs_at_every_cut, target_of

SHARES = {"": "1/10", "all": "1/1"}
"""What ``SPLIT_CONFORMANCE`` means where it is no share itself."""

MAX_CUTS = 40


@cache
def cases() -> list[Any]:
    """All test cases whose model has several nodes, in order of their names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = {case.name: case for case in collect_testcases(None)}
    several = [found[name] for name in sorted(found) if len(found[name].model.graph.node) > 1]
    wanted = os.environ.get("SPLIT_CONFORMANCE", "")
    share, num_shares = map(int, SHARES.get(wanted, wanted).split("/"))
    return several[share - 1 :: num_shares]


def feeds_of(source: Source, case: Any) -> Iterator[dict[str, Any]]:
    """The inputs of each data set by name; an absent optional stays absent."""
    for inputs, _ in case.data_sets:
        yield {spec.name: value for spec, value in zip(source.inputs, inputs, strict=False) if value is not None}


def runs_whole(source: Source) -> bool:
    """True if this runtime loads the model at all."""
    try:
        open_session(source.path, DEVICE, session_options(DEVICE, optimise=True))
    except ModelRefusedError:
        return False
    return True


def differences(case: Any, kind: str, source: Source, work: Path) -> tuple[int, Sequence[str]]:
    """Number of ways the case was cut, and what was wrong."""
    functions = Functions(source.model.functions)
    is_random = any(functions.is_random(node) for node in source.model.graph.node)
    try:
        target = target_of(source, kind, work)
        results = outputs_at_every_cut(
            source, target, list(feeds_of(source, case)), work, seeded=is_random, limit=MAX_CUTS
        )
    except ModelRefusedError as error:
        return 0, [f"{case.name}, {kind}: {error}"]
    wrong: list[str] = []
    for way, made in results.items():
        for outputs, whole in zip(made, results[()], strict=True):
            comparison = Comparison(
                outputs=source.outputs,
                is_quantised=is_quantised(source.model.graph.node),
                coarsest=coarsest_float(source.model),
            )
            try:
                comparison.add(whole, outputs)
            except NotEquivalentError as error:
                wrong.append(f"{case.name}, {kind}, cut at {way}: {error}")
    return len(results) - 1, wrong


@pytest.mark.parametrize("kind", ["user", "optimised"])
def test_every_node_test_case_of_several_nodes_gives_the_same_wherever_it_is_cut(kind: str, tmp_path: Path) -> None:
    num_cut = num_ways = num_not_loaded = 0
    wrong: list[str] = []
    for case in cases():
        work = tmp_path / case.name
        work.mkdir()
        onnx.save(case.model, work / "m.onnx")
        try:
            source = read_source(work / "m.onnx")
        except ModelRefusedError:
            num_not_loaded += 1
            continue
        if not runs_whole(source):
            num_not_loaded += 1
            continue
        ways, found = differences(case, kind, source, work)
        num_cut += 1
        num_ways += ways
        wrong += found
    print(f"{num_cut} models in {num_ways} ways, {num_not_loaded} that this runtime does not load")
    assert wrong == []
    assert num_cut
