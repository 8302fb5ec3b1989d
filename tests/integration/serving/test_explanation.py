"""An answer tells where the time of its request went, if it is asked to."""

from __future__ import annotations

import json

import httpx
import pytest

from serve_app.protocol import inference_pb2 as pb
from tests.http_request import binary_request
from tests.integration.serving.conftest import Deploy
from tests.integration.serving.observe import status, wait_until
from tests.models import random_input


def holds(model: str) -> bool:
    return any(view["model"] == model for view in status("cpu-0")["snapshot"]["holders"])


def test_it_names_whom_the_request_waited_for_and_who_took_the_device_away(deploy: Deploy) -> None:
    long, short = deploy("vgg19"), deploy("squeezenet")
    long_answer = long.infer_explained.remote(random_input("vgg19"))
    wait_until(lambda: holds("vgg19"), "vgg19 runs")
    _, of_short = short.infer_explained.remote(random_input("squeezenet")).result()
    _, of_long = long_answer.result()
    assert [blocker.request_id for blocker in of_short.behind] == [of_long.request_id]
    assert of_short.preemptions == ()
    assert [preemption.request_id for preemption in of_long.preemptions] == [of_short.request_id]
    assert len(of_long.reasons) == 2  # turns
    for each in (of_short, of_long):
        assert each.ran_s == pytest.approx(sum(each.block_s), rel=0.05)
        assert each.ran_s + each.waited_s == pytest.approx(each.total_s)
        assert sum(blocker.ran_s for blocker in each.behind) + each.idle_s == pytest.approx(each.waited_s)


def test_over_http_it_is_a_parameter_of_the_answer(deploy: Deploy, cluster: int) -> None:
    deploy("squeezenet")
    url = f"http://127.0.0.1:{cluster}/v2/models/squeezenet/infer"
    answer = httpx.post(url, timeout=30, **binary_request(random_input("squeezenet"), explain=True))
    assert answer.status_code == 200, answer.text
    body = json.loads(answer.content[: int(answer.headers["Inference-Header-Content-Length"])])
    explanation = body["parameters"]["explanation"]
    assert explanation["granted"] == ["alone"]
    assert explanation["behind"] == []
    assert explanation["ran_ms"] <= explanation["total_ms"]
    assert explanation["waited_ms"] == pytest.approx(explanation["idle_ms"], abs=0.002)
    plain = httpx.post(url, timeout=30, **binary_request(random_input("squeezenet")))
    assert b"explanation" not in plain.content


def test_over_grpc_it_is_a_parameter_in_json(deploy: Deploy) -> None:
    handle = deploy("squeezenet")
    array = random_input("squeezenet")["data_0"]
    request = pb.ModelInferRequest(model_name="squeezenet")
    request.inputs.add(name="data_0", datatype="FP32", shape=array.shape)
    request.raw_input_contents.append(array.tobytes())
    request.parameters["explain"].bool_param = True
    answer = pb.ModelInferResponse.FromString(handle.infer_grpc.remote(request.SerializeToString()).result())
    explanation = json.loads(answer.parameters["explanation"].string_param)
    assert sum(explanation["block_ms"]) == pytest.approx(explanation["ran_ms"], rel=0.05)
    assert explanation["total_ms"] >= explanation["ran_ms"]
