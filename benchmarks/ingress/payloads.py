"""The model, the payloads, and one prepared request per payload and rival."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.load.config_file import write_config
from serve_app.protocol import inference_pb2 as pb
from serve_app.protocol.client_codec import encode_infer_request
from split_tool.plan import WHOLE_MODEL_FILE, SplitPlan
from split_tool.splitting import split

MODEL = "first"
NUM_OUTPUTS = 1000
PAYLOAD_BYTES = {"64 B": 64, "600 KB": 602_112, "5 MB": 5_000_000}
_NUMBER = "0.12345"

Form = Literal["binary", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The model that both serve.

    Attributes:
        model: Its name.
        input: Name of its one input, float32.
        shape: Of that; None: one row of whatever length.
        repository: Folder of its split plan's folder.
        path: The file with the whole model.
    """

    model: str = MODEL
    input: str = "x"
    shape: tuple[int, ...] | None = None
    repository: Path
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What one request carries, for each rival.

    Attributes:
        ours: Body for our HTTP, with its headers.
        plain: The same for the plain deployment.
        grpc: Serialised ``ModelInferRequest``; None for JSON.
    """

    ours: tuple[bytes, dict[str, str]]
    plain: tuple[bytes, dict[str, str]]
    grpc: bytes | None


def make_payload(size: str, form: Form) -> Payload:
    """The payload of that size and form for the model of ``make_model``; in JSON the text has that size."""
    if form == "json":
        count = max(1, PAYLOAD_BYTES[size] // (len(_NUMBER) + 1))
        data = ",".join([_NUMBER] * count)
        ours = f'{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1,{count}],"data":[{data}]}}]}}'
        headers = {"Content-Type": "application/json"}
        plain = (f'{{"data":[{data}]}}'.encode(), headers)
        return Payload(ours=(ours.encode(), headers), plain=plain, grpc=None)
    return _binary(MODEL, "x", (1, PAYLOAD_BYTES[size] // 4))


def payload_of(subject: Subject) -> Payload:
    """Random numbers for a model whose shape is fixed."""
    assert subject.shape is not None
    return _binary(subject.model, subject.input, subject.shape)


def _binary(model: str, name: str, shape: tuple[int, ...]) -> Payload:
    x = np.random.default_rng(0).random(shape, np.float32)
    request = encode_infer_request({name: x})
    message = pb.ModelInferRequest(model_name=model, raw_input_contents=[x.tobytes()])
    message.inputs.add(name=name, datatype="FP32", shape=x.shape)
    binary = {"Content-Type": "application/octet-stream"}
    return Payload(
        ours=(request.body, binary | {"Inference-Header-Content-Length": str(request.header_length)}),
        plain=(x.tobytes(), binary),
        grpc=message.SerializeToString(),
    )


def make_model(folder: Path) -> Path:
    """The model's file, with its plan in ``models`` beside it.

    The model gives the first ``NUM_OUTPUTS`` numbers of its input, negative ones as 0: it costs next to nothing, so the
    path around it is what is measured.
    """
    graph = helper.make_graph(
        [
            helper.make_node("Slice", ["x", "start", "end", "axis"], ["head"]),
            helper.make_node("Relu", ["head"], ["y"]),
        ],
        MODEL,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "m"])],
        [
            onnx.numpy_helper.from_array(np.array([value], np.int64), name)
            for name, value in {"start": 0, "end": NUM_OUTPUTS, "axis": 1}.items()
        ],
    )
    path = folder / f"{MODEL}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    split(path, folder / "models" / MODEL, blocks=1, input_shapes={"x": (1, 100_000)})
    return path


def subject_of(plan_folder: Path) -> Subject:
    """The model of a split plan.

    Raises:
        ValueError: If it has none or more than one input, or one that is not float32 of a fixed shape.
        SplitToolError: If there is no plan.
    """
    plan = SplitPlan.load(plan_folder)
    first = plan.inputs[0] if len(plan.inputs) == 1 else None
    shape = () if first is None else tuple(axis for axis in first.shape or () if isinstance(axis, int))
    if first is None or first.dtype != "float32" or first.shape != shape:
        raise ValueError(f"{plan_folder}: a model with one input, float32 and of a fixed shape, is needed")
    return Subject(
        model=plan.model,
        input=first.name,
        shape=shape,
        repository=plan_folder.parent,
        path=plan_folder / WHOLE_MODEL_FILE,
    )


def make_config(folder: Path, cores: list[int], subject: Subject | None = None) -> Path:
    """A configuration file that serves a model twice, by us and by the plain deployment: that of ``make_model``, or
    another, whole in both.
    """
    mode = "slo" if subject is None else "fifo"  # which runs it whole
    subject = subject or Subject(repository=folder / "models", path=make_model(folder))
    device = {"kind": "cpu", "mode": mode} | ({"cores": cores} if cores else {})
    plain = {
        "name": "plain",
        "route_prefix": "/plain",
        "import_path": "benchmarks.ingress.plain:plain",
        "args": {
            "path": str(subject.path),
            "cores": cores,
            "input": subject.input,
            "shape": list(subject.shape or (1, -1)),
        },
    }
    models = {subject.model: {"device": device}}
    return write_config(folder / "config.yaml", models, repository=subject.repository, gateway={}, others=[plain])
