"""``user_config`` changes a device's mode and a model's wishes while requests run, without a restart."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

from tests.integration.serving.observe import slices, status, wait_until
from tests.models import random_input

DEVICE = "cpu-12"
MODELS = ("squeezenet", "shufflenet")


def apply(repository: Path, **user_configs: dict[str, Any]) -> None:
    """What ``serve deploy`` does with a file that has both models, and ``user_config`` of some."""
    applications = [
        {
            "name": f"{name}-live",
            "route_prefix": f"/{name}-live",
            "import_path": "serve_app.app:model",
            "args": {"model": name, "repository": str(repository), "device": {"index": 12}},
            "deployments": [{"name": "SplitModel", "user_config": user_configs[name]}] if name in user_configs else [],
        }
        for name in MODELS
    ]
    client = _get_global_client()
    assert client is not None
    client.deploy_apps(ServeDeploySchema.model_validate({"applications": applications}))


def wait_until_running() -> None:
    def are_running() -> bool:
        applications = serve.status().applications
        return all(f"{n}-live" in applications and applications[f"{n}-live"].status == "RUNNING" for n in MODELS)

    wait_until(are_running, "both models run", limit_s=90)


def num_blocks_of_last_turn(model: str) -> int:
    turns = [turn for turn in slices(DEVICE) if turn["model"] == model and turn["outcome"] == "finished"]
    return len(turns[-1]["block_ends_s"]) + int(turns[-1]["first_block"])


@pytest.fixture(scope="module")
def running(cluster: int, repository: Path) -> Path:
    apply(repository)
    wait_until_running()
    return repository


def test_a_model_without_user_config_tells_a_wrong_one_and_is_as_stated_once_a_right_one_is_gone(running: Path) -> None:
    handle = serve.get_app_handle("squeezenet-live")
    apply(running, squeezenet={"device": {"mode": None}})
    wait_until(lambda: "user_config.device.mode" in handle.served.remote().result().remark, "the fault is told")
    assert handle.infer.remote(random_input("squeezenet")).result(timeout_s=30)
    apply(running, squeezenet={"device": {"mode": "oyst"}})
    wait_until(lambda: status(DEVICE)["mode"] == "oyst", "the right one is adopted")
    apply(running)
    wait_until(lambda: status(DEVICE)["mode"] == "slo", "what args say holds again")
    assert handle.served.remote().result().remark == ""


def test_a_change_of_mode_reaches_device_and_replicas_and_drops_nothing(running: Path) -> None:
    handle, inputs = serve.get_app_handle("squeezenet-live"), random_input("squeezenet")
    pids = sorted(replica["pid"] for replica in status(DEVICE)["replicas"])
    failures: list[BaseException] = []
    has_stopped = threading.Event()

    def ask() -> None:
        while not has_stopped.is_set():
            try:
                handle.infer.remote(inputs).result(timeout_s=30)
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: num_blocks_of_last_turn("squeezenet") > 1, "blocks run")
        fifo: dict[str, Any] = {"device": {"mode": "fifo"}}
        apply(running, squeezenet=fifo, shufflenet=fifo)
        wait_until(lambda: status(DEVICE)["mode"] == "fifo", "the device is in mode fifo")
        wait_until(lambda: num_blocks_of_last_turn("squeezenet") == 1, "the whole model runs")
        parallel: dict[str, Any] = {"device": {"mode": "parallel"}}
        apply(running, squeezenet=parallel, shufflenet=parallel)
        wait_until(lambda: len(status(DEVICE)["snapshot"]["holders"]) > 1, "requests run at once")
        apply(running, squeezenet={}, shufflenet={})
        wait_until(lambda: status(DEVICE)["mode"] == "slo", "what args say holds again")
        wait_until(lambda: num_blocks_of_last_turn("squeezenet") > 1, "blocks run again")
    finally:
        has_stopped.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert sorted({replica["pid"] for replica in status(DEVICE)["replicas"]}) == pids


def test_models_that_claim_different_settings_leave_the_device_as_it_is(running: Path) -> None:
    apply(running, squeezenet={"device": {"mode": "oyst"}}, shufflenet={"device": {"mode": "oyst"}})
    wait_until(lambda: status(DEVICE)["mode"] == "oyst", "both have said the same")
    apply(running, squeezenet={"device": {"mode": "oyst"}}, shufflenet={"device": {"mode": "bnst"}})
    wait_until(lambda: " disagree: mode: " in status(DEVICE)["conflict"], "it is told")
    assert status(DEVICE)["mode"] == "oyst"
    served = serve.get_app_handle("shufflenet-live").served.remote().result()
    assert "until all user_config of its models agree" in served.remark
    apply(running, squeezenet={}, shufflenet={"device": {"max_waiting_per_model": 3}})
    wait_until(lambda: status(DEVICE)["settings"]["max_waiting_per_model"] == 3, "the one claim left is in force")
    assert status(DEVICE)["mode"] == "slo"


def test_a_wrong_user_config_is_told_and_the_model_serves_on(running: Path) -> None:
    handle = serve.get_app_handle("squeezenet-live")
    apply(running, squeezenet={"qos": {"alhpa": 2}}, shufflenet={})
    wait_until(lambda: "user_config.qos.alhpa" in handle.served.remote().result().remark, "the fault is told")
    assert handle.infer.remote(random_input("squeezenet")).result(timeout_s=30)
    apply(running, squeezenet={"qos": {"alpha": 2, "priority": 3}}, shufflenet={})
    wait_until(lambda: handle.served.remote().result().remark == "", "the right one is adopted")
