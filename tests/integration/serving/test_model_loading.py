"""Models come and go through a real gateway: loaded, replaced and unloaded while requests run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from ray import serve

from deployments.runtime.allocator_actor import find_socket
from deployments.runtime.settings import DeviceSettings
from deployments.runtime.turns import TurnTaker
from serve_app.app import gateway
from serve_app.grpc_service import SERVICE
from serve_app.protocol import inference_pb2 as pb
from serve_app.sections import DeviceConfig, GatewayConfig, StoredModelConfig
from serve_app.server import free_port
from split_tool import split
from split_tool.plan import SplitPlan
from tests.integration.serving.observe import slices, status, wait_until

LIMIT_S = 60.0


def write_model(path: Path, factor: float) -> None:
    """A model that multiplies four numbers by ``factor``."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "factor"], ["scaled"]), helper.make_node("Neg", ["scaled"], ["y"])],
        "scale",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(np.full(4, -factor, np.float32), "factor")],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def put_version(repository: Path, model: str, version: int, factor: float) -> None:
    """Version ``version`` of ``model``, split, multiplies by ``factor``."""
    source = repository.parent / f"{model}-{version}.onnx"
    write_model(source, factor)
    split(source, repository / model / str(version), name=model, blocks=1, budget_s=0.02)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loading") / "models"
    for model in ("twice", "under_load", "by_grpc"):
        put_version(folder, model, 1, 2.0)
    return folder


@pytest.fixture(scope="module")
def grpc_port(cluster: int, repository: Path) -> Iterator[int]:
    """A gateway that loads from the repository, with HTTP below ``/loading``; where its gRPC listens."""
    config = GatewayConfig(
        grpc_port=free_port(),
        repository=str(repository),
        models=StoredModelConfig(device=DeviceConfig(index=11)),
    )
    serve.run(gateway(config), name="loading", route_prefix="/loading")
    assert config.grpc_port is not None
    yield config.grpc_port
    serve.delete("loading")


@pytest.fixture(scope="module")
def client(cluster: int, grpc_port: int) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{cluster}", timeout=LIMIT_S) as opened:
        yield opened


def control(client: httpx.Client, model: str, what: str, **body: Any) -> httpx.Response:
    return client.post(f"/loading/v2/repository/models/{model}/{what}", json=body)


def index(client: httpx.Client, **body: Any) -> dict[str, dict[str, str]]:
    answer = client.post("/loading/v2/repository/index", json=body)
    assert answer.status_code == 200, answer.text
    return {entry["name"]: entry for entry in answer.json()}


def infer(client: httpx.Client, model: str) -> list[float]:
    request = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [4], "data": [0, 1, 2, 3]}]}
    answer = client.post(f"/v2/models/{model}/infer", json=request)
    assert answer.status_code == 200, answer.text
    data: list[float] = answer.json()["outputs"][0]["data"]
    return data


def test_a_model_is_loaded_answers_and_is_unloaded(client: httpx.Client) -> None:
    assert index(client)["twice"] == {"name": "twice", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"}
    assert "twice" not in index(client, ready=True)
    assert control(client, "twice", "load").status_code == 200
    assert infer(client, "twice") == [0, 2, 4, 6]
    assert index(client)["twice"] == {"name": "twice", "version": "1", "state": "READY", "reason": ""}
    metadata = client.get("/v2/models/twice").json()
    assert metadata["versions"] == ["1"]
    assert control(client, "twice", "unload", parameters={"unload_dependents": False}).status_code == 200
    wait_until(lambda: index(client)["twice"]["reason"] == "unloaded", "twice is gone")
    assert client.post("/loading/v2/models/twice/infer").status_code == 404


def test_what_is_loaded_already_is_not_loaded_again(client: httpx.Client) -> None:
    assert control(client, "twice", "load").status_code == 200
    before = client.get("/v2/models/twice/stats").json()["model_stats"][0]["inference_count"]
    infer(client, "twice")
    assert control(client, "twice", "load").status_code == 200
    after = client.get("/v2/models/twice/stats").json()["model_stats"][0]["inference_count"]
    assert after == before + 1  # the same replica still counts


def test_no_request_is_dropped_while_a_new_version_takes_over(client: httpx.Client, repository: Path) -> None:
    assert control(client, "under_load", "load").status_code == 200
    handle = serve.get_app_handle("under_load")
    array = np.arange(4, dtype=np.float32)
    answers: list[float] = []
    failures: list[BaseException] = []
    has_stopped = threading.Event()

    def ask(one: Callable[[], float]) -> None:
        while not has_stopped.wait(0.01):  # leaves the processor to the new replica
            try:
                answers.append(one())
            except BaseException as error:
                failures.append(error)

    threads = [
        threading.Thread(target=ask, args=(one,))
        for one in (
            lambda: infer(client, "under_load")[1],
            lambda: float(handle.infer.remote({"x": array}).result(timeout_s=LIMIT_S)["y"][1]),
        )
    ]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(answers) > 20, "requests run")
        put_version(repository, "under_load", 2, 3.0)
        assert control(client, "under_load", "load").status_code == 200
        wait_until(lambda: answers[-20:] == [3.0] * 20, "the new version answers alone")
        assert index(client)["under_load"]["version"] == "2"
    finally:
        has_stopped.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert set(answers) == {2.0, 3.0}


def test_what_a_model_has_accepted_is_answered_although_it_is_unloaded(client: httpx.Client) -> None:
    assert control(client, "twice", "load").status_code == 200
    handle, array = serve.get_app_handle("twice"), np.arange(4, dtype=np.float32)
    device = DeviceSettings(index=11)
    with TurnTaker("test", device, lambda: find_socket(device)) as taker, taker.turn():
        answers = [handle.infer.remote({"x": array}) for _ in range(20)]
        wait_until(lambda: len(status("cpu-11")["snapshot"]["waiting"]) == 20, "all wait for the device")
        assert control(client, "twice", "unload").status_code == 200
        wait_until(lambda: index(client)["twice"]["state"] == "UNLOADING", "twice leaves")
    for answer in answers:
        np.testing.assert_array_equal(answer.result(timeout_s=LIMIT_S)["y"], 2 * array)
    wait_until(lambda: index(client)["twice"]["reason"] == "unloaded", "twice is gone")


def test_a_broken_version_is_told_and_the_one_that_serves_goes_on(client: httpx.Client, repository: Path) -> None:
    put_version(repository, "broken", 1, 5.0)
    assert control(client, "broken", "load").status_code == 200
    put_version(repository, "broken", 2, 6.0)
    block = next((repository / "broken" / "2" / "blocks").glob("*.onnx"))
    block.write_bytes(b"no model")
    answer = control(client, "broken", "load")
    assert answer.status_code == 400
    assert "has changed since the plan was made" in answer.json()["error"]
    assert infer(client, "broken") == [0, 5, 10, 15]
    entry = index(client)["broken"]
    assert (entry["state"], entry["version"]) == ("READY", "1")
    assert "has changed since the plan was made" in entry["reason"]
    assert control(client, "twice", "load").status_code == 200
    assert infer(client, "twice") == [0, 2, 4, 6]


def test_what_is_wrong_with_a_model_stands_in_the_index_before_it_is_loaded(
    client: httpx.Client, repository: Path
) -> None:
    (repository / "empty").mkdir()
    put_version(repository, "wrong_config", 1, 1.0)
    (repository / "wrong_config" / "config.yaml").write_text("qos: {alhpa: 3}")
    told = index(client)
    assert "no model 'empty'" in told["empty"]["reason"]
    assert "qos.alhpa: unknown key" in told["wrong_config"]["reason"]
    assert control(client, "wrong_config", "load").status_code == 400


def test_a_model_that_is_not_split_is_served_at_once_and_split_beside(client: httpx.Client, repository: Path) -> None:
    write_model(repository / "unsplit" / "1" / "model.onnx", 7.0)
    since = status("cpu-11")["num_slices"]
    assert control(client, "unsplit", "load").status_code == 200
    assert infer(client, "unsplit") == [0, 7, 14, 21]
    wait_until(lambda: index(client)["unsplit"]["reason"] == "", "unsplit is split")
    assert infer(client, "unsplit") == [0, 7, 14, 21]
    turns = slices("cpu-11", since)
    assert {turn["model"] for turn in turns} == {"load_unsplit", "unsplit", "split_unsplit"}
    (plan,) = (repository / ".cache" / "unsplit").glob("*/blocks/plan.json")
    assert SplitPlan.load(plan.parent).proof.num_samples > 0
    assert control(client, "unsplit", "load").status_code == 200  # it is what the repository has


@pytest.mark.parametrize(
    ("model", "code", "message"),
    [
        ("nowhere", 404, "there is no model 'nowhere'"),
        ("..%2Foutside", 404, "Not Found"),
        ("...", 400, "is no name of a model"),
        ("linked", 400, "outside of the model repository"),
    ],
)
def test_nothing_outside_of_the_repository_is_loaded(
    client: httpx.Client, repository: Path, model: str, code: int, message: str
) -> None:
    put_version(repository.parent, "outside", 1, 1.0)
    if not (repository / "linked").is_symlink():
        (repository / "linked").symlink_to(repository.parent / "outside")
    answer = control(client, model, "load")
    assert answer.status_code == code
    assert message in answer.json()["error"]


def test_what_a_request_brings_along_is_refused(client: httpx.Client) -> None:
    answer = control(client, "twice", "load", parameters={"file:1/model.onnx": "AAAA"})
    assert answer.status_code == 400
    assert "models load from the server's own repository alone" in answer.json()["error"]


def test_models_are_loaded_and_unloaded_over_grpc(grpc_port: int) -> None:
    def call(name: str, request: Any, answer: Any) -> Any:
        method = channel.unary_unary(f"/{SERVICE}/{name}")
        return answer.FromString(method(request.SerializeToString(), timeout=LIMIT_S, wait_for_ready=True))

    def states(**request: Any) -> dict[str, str]:
        told = call("RepositoryIndex", pb.RepositoryIndexRequest(**request), pb.RepositoryIndexResponse)
        return {entry.name: entry.state for entry in told.models}

    def ready(version: str) -> bool:
        request = pb.ModelReadyRequest(name="by_grpc", version=version)
        return bool(call("ModelReady", request, pb.ModelReadyResponse).ready)

    with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
        assert not ready("")
        request = pb.RepositoryModelLoadRequest(model_name="by_grpc")
        call("RepositoryModelLoad", request, pb.RepositoryModelLoadResponse)
        assert states()["by_grpc"] == "READY"
        assert (ready("1"), ready("2")) == (True, False)
        infer_request = pb.ModelInferRequest(model_name="by_grpc", model_version="2")
        with pytest.raises(grpc.RpcError, match="has no version '2'"):
            call("ModelInfer", infer_request, pb.ModelInferResponse)
        unload = pb.RepositoryModelUnloadRequest(model_name="by_grpc")
        call("RepositoryModelUnload", unload, pb.RepositoryModelUnloadResponse)
        wait_until(lambda: states()["by_grpc"] == "UNAVAILABLE", "by_grpc is gone")
        with pytest.raises(grpc.RpcError, match="there is no model 'nowhere'"):
            call(
                "RepositoryModelLoad",
                pb.RepositoryModelLoadRequest(model_name="nowhere"),
                pb.RepositoryModelLoadResponse,
            )
