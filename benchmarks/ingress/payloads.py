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
from split_tool.splitting import split

MODEL = "first"
NUM_OUTPUTS = 1000
PAYLOAD_BYTES = {"64 B": 64, "600 KB": 602_112, "5 MB": 5_000_000}
_NUMBER = "0.12345"

Form = Literal["binary", "json"]


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
    """The payload of that size and form; in JSON the text has that size."""
    if form == "json":
        count = max(1, PAYLOAD_BYTES[size] // (len(_NUMBER) + 1))
        data = ",".join([_NUMBER] * count)
        ours = f'{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1,{count}],"data":[{data}]}}]}}'
        headers = {"Content-Type": "application/json"}
        plain = (f'{{"data":[{data}]}}'.encode(), headers)
        return Payload(ours=(ours.encode(), headers), plain=plain, grpc=None)
    x = np.random.default_rng(0).random((1, PAYLOAD_BYTES[size] // 4), np.float32)
    request = encode_infer_request({"x": x})
    message = pb.ModelInferRequest(model_name=MODEL, raw_input_contents=[x.tobytes()])
    message.inputs.add(name="x", datatype="FP32", shape=x.shape)
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


def make_config(folder: Path, cores: list[int]) -> Path:
    """A configuration file that serves the model twice: by us and by the plain deployment."""
    path = make_model(folder)
    device = {"kind": "cpu"} | ({"cores": cores} if cores else {})
    plain = {
        "name": "plain",
        "route_prefix": "/plain",
        "import_path": "benchmarks.ingress.plain:plain",
        "args": {"path": str(path), "cores": cores},
    }
    return write_config(
        folder / "config.yaml", {MODEL: {"device": device}}, repository=folder / "models", gateway={}, others=[plain]
    )
