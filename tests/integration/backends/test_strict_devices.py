"""Sessions run on the device asked for, or not at all; real ONNX Runtime.

Nodes on two devices at once need a second provider that runs on any machine: ``make test-openvino`` runs this file with
onnxruntime-openvino in an environment of its own.
"""

from __future__ import annotations

from ctypes.util import find_library
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployments.runtime.backends.strict_session import open_session, placed_nodes
from deployments.runtime.errors import DeviceUnavailableError, NodesElsewhereError
from deployments.runtime.settings import DeviceKind, DeviceSettings

needs_openvino = pytest.mark.skipif(
    "OpenVINOExecutionProvider" not in ort.get_available_providers(), reason="'make test-openvino' runs it"
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Convolution, Relu, and Unique, which hardly any provider but the processor's has."""
    weights = np.random.default_rng(0).random((8, 4, 3, 3), dtype=np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["y"], name="conv1"),
            helper.make_node("Relu", ["y"], ["z"], name="relu1"),
            helper.make_node("Unique", ["z"], ["u"], name="unique1"),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info("u", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def open_on(path: Path, kind: DeviceKind, **settings: object) -> ort.InferenceSession:
    device = DeviceSettings(kind=kind, cache=str(path.parent), **settings)  # type: ignore[arg-type]
    return open_session(path, "0" * 64, device, is_optimised=True)


def test_on_the_processor_every_node_is_where_it_was_asked_for(model: Path) -> None:
    nodes = placed_nodes(open_on(model, "cpu"))
    assert [node.name for node in nodes] == ["conv1", "relu1", "unique1"]
    assert {node.provider for node in nodes} == {"CPUExecutionProvider"}


def test_a_provider_that_this_runtime_does_not_have_is_an_error_that_says_what_to_install(model: Path) -> None:
    with pytest.raises(DeviceUnavailableError, match=r"coreml-0 needs CoreMLExecutionProvider, .* use macOS"):
        open_on(model, "coreml")


@pytest.mark.skipif(
    "CUDAExecutionProvider" not in ort.get_available_providers() or find_library("cuda") is not None,
    reason="needs onnxruntime-gpu and no driver",
)
def test_cuda_without_a_driver_is_an_error_and_not_the_processor(model: Path) -> None:
    with pytest.raises(DeviceUnavailableError, match=r"CUDAExecutionProvider of device cuda-0 .*serve_app doctor"):
        open_on(model, "cuda")


@needs_openvino
def test_nodes_placed_elsewhere_are_an_error_that_names_them_and_the_remedies(model: Path) -> None:
    expected = r"1 nodes on CPUExecutionProvider .*: unique1 \(Unique\)\. .* allow_cpu_nodes: \[Unique\]"
    with pytest.raises(NodesElsewhereError, match=expected):
        open_on(model, "openvino")


@needs_openvino
def test_nodes_that_may_be_elsewhere_give_the_same_result(model: Path) -> None:
    session = open_on(model, "openvino", allow_cpu_nodes=("unique1",))
    placed = {node.name: node.provider for node in placed_nodes(session)}
    assert placed["conv1"] == "OpenVINOExecutionProvider"
    assert placed["unique1"] == "CPUExecutionProvider"
    inputs = {"x": np.random.default_rng(1).random((1, 4, 8, 8), dtype=np.float32)}
    (expected,) = open_on(model, "cpu").run(None, inputs)
    np.testing.assert_allclose(session.run(None, inputs)[0], expected, rtol=1e-5)
