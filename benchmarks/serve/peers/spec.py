"""What every peer is told, the session it opens, and the protocol it speaks: only numpy and ONNX Runtime are needed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

# The numeric datatypes of the Open Inference Protocol v2 that numpy has.
_DTYPES = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8",
    "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64",
}  # fmt: skip
_DATATYPES = {dtype: name for name, dtype in _DTYPES.items()}


@dataclass(frozen=True)
class PeerSpec:
    """What a peer serves.

    Attributes:
        host: Where HTTP listens.
        port: The same.
        models: Model name -> its ONNX file, not split.
        provider: ONNX Runtime execution provider.
        session_threads: Threads inside an operator.
        workers: Requests of one model that run at a time.
        cores: Processor cores that inference is pinned to; None: not pinned.
    """

    host: str
    port: int
    models: dict[str, str]
    provider: str
    session_threads: int
    workers: int
    cores: list[int] | None

    @classmethod
    def load(cls, path: str) -> PeerSpec:
        """The spec in a JSON file."""
        return cls(**json.loads(Path(path).read_text()))

    @property
    def url(self) -> str:
        """Where the peer answers."""
        return f"http://{self.host}:{self.port}"

    def pin(self) -> None:
        """Pin the calling thread, and those that it starts, to the device's cores."""
        if self.cores is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self.cores)

    def open_session(self, model: str) -> ort.InferenceSession:
        """The whole model; call it on a pinned thread."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = self.session_threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        return ort.InferenceSession(self.models[model], options, providers=[self.provider])


def run_session(session: ort.InferenceSession, inputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs by name."""
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def decode_tensors(body: bytes) -> dict[str, Any]:
    """The inputs of a request in binary form: views on the body."""
    header, start = json.JSONDecoder().raw_decode(body[:65536].decode("latin-1"))
    tensors = {}
    for entry in header["inputs"]:
        size_bytes = entry["parameters"]["binary_data_size"]
        data = memoryview(body)[start : start + size_bytes]
        start += size_bytes
        tensors[entry["name"]] = (
            _texts(data, entry["shape"])
            if entry["datatype"] == "BYTES"
            else np.frombuffer(data, _DTYPES[entry["datatype"]]).reshape(entry["shape"])
        )
    return tensors


def encode_tensors(outputs: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of an answer in binary form."""
    entries = [
        {
            "name": name,
            "datatype": _DATATYPES[array.dtype.name],
            "shape": array.shape,
            "parameters": {"binary_data_size": array.nbytes},
        }
        for name, array in outputs.items()
    ]
    header = json.dumps({"outputs": entries}).encode()
    body = b"".join((header, *(array.tobytes() for array in outputs.values())))
    return body, {"inference-header-content-length": str(len(header))}


def _texts(data: memoryview, shape: list[int]) -> Any:
    """Each element is its length in four bytes, low first, and its text."""
    texts = []
    while data:
        end = 4 + int.from_bytes(data[:4], "little")
        texts.append(bytes(data[4:end]).decode())
        data = data[end:]
    return np.array(texts, dtype=object).reshape(shape)
