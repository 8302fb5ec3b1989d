"""A model on OpenCL and one on ONNX Runtime take turns on one device, under one allocator."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import ray
from ray import serve

from deployments.runtime.allocator_actor import allocators
from opencl_runner.checking import MAX_REL_ERROR, relative_error
from serve_app.app import model
from serve_app.sections import ModelConfig
from serve_app.server import free_port
from split_tool import SplitPlan, run_chain, split
from split_tool.tvm_opencl.attempts import Options
from split_tool.tvm_opencl.compiling import compile_plan
from tests.integration.serving.observe import slices, wait_until
from tests.opencl import toys

DEVICE = "board"
NUM_REQUESTS = 12


@pytest.fixture(scope="module")
def repository(device: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    onnx.save(toys.classifier(), str(folder / "toy.onnx"))
    for name in ("on_opencl", "on_onnxruntime"):
        split(folder / "toy.onnx", folder / name, name=name, blocks=2, graph="user", budget_s=0.05)
    compile_plan(folder / "on_opencl", "opencl", Options())
    return folder


@pytest.fixture(scope="module")
def handles(repository: Path) -> Iterator[dict[str, Any]]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": free_port()})
    found = {}
    for name, kind in (("on_opencl", "opencl"), ("on_onnxruntime", "cpu")):
        config = ModelConfig(model=name, repository=str(repository), device={"name": DEVICE, "kind": kind})
        found[name] = serve.run(model(config), name=name, route_prefix=f"/v2/models/{name}")
    yield found
    serve.shutdown()
    ray.shutdown()


def test_both_answer_and_never_hold_the_device_together(handles: dict[str, Any], repository: Path) -> None:
    plan = SplitPlan.load(repository / "on_onnxruntime")
    inputs = [toys.random_input((1, 4, 8, 8), seed) for seed in range(NUM_REQUESTS)]
    answers = [(handle.infer.remote(each), each) for each in inputs for handle in handles.values()]
    for answer, given in answers:
        (expected,) = run_chain(plan, repository / "on_onnxruntime", given)
        assert relative_error(expected, answer.result()["y"]) <= MAX_REL_ERROR
    assert [name.rpartition("-")[0] for name in allocators()] == [f"allocator-{DEVICE}"]
    wait_until(lambda: sum(turn["outcome"] == "finished" for turn in slices(DEVICE)) >= 2 * NUM_REQUESTS, "all turns")
    turns = sorted(slices(DEVICE), key=lambda turn: turn["start_s"])
    assert {turn["model"] for turn in turns} == {"on_opencl", "on_onnxruntime"}
    assert all(first["end_s"] <= second["start_s"] for first, second in itertools.pairwise(turns))


def test_the_statistics_tell_what_was_copied_to_the_device_and_back(handles: dict[str, Any]) -> None:
    given = toys.random_input((1, 4, 8, 8), 0)
    for handle in handles.values():
        before = handle.statistics.remote().result()
        outputs = handle.infer.remote(given).result()
        after = handle.statistics.remote().result()
        assert after.input_bytes - before.input_bytes == sum(array.nbytes for array in given.values())
        assert after.output_bytes - before.output_bytes == sum(array.nbytes for array in outputs.values())
        for copied in ("compute_input", "compute_output"):
            first, second = (getattr(each.inference_stats, copied) for each in (before, after))
            assert second.count == first.count + 1
            assert second.ns > first.ns
