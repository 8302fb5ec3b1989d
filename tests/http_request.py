"""Inference requests and answers of the Open Inference Protocol over HTTP, made and read by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from serve_app.protocol.datatypes import datatype_named, datatype_of_array


def binary_request(inputs: Mapping[str, np.ndarray], **parameters: Any) -> dict[str, Any]:
    """``content`` and ``headers`` of a request, with ``parameters``, that sends and asks for all in the binary form."""
    tensors, parts = [], []
    for name, array in inputs.items():
        parts.append(_to_bytes(array))
        tensors.append(_tensor(name, array) | {"parameters": {"binary_data_size": len(parts[-1])}})
    header = json.dumps({"inputs": tensors, "parameters": {"binary_data_output": True, **parameters}}).encode()
    return {
        "content": header + b"".join(parts),
        "headers": {"Inference-Header-Content-Length": str(len(header))},
    }


def json_request(inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """``content`` and ``headers`` of a request in JSON alone."""
    tensors = [_tensor(name, array) | {"data": _plain(array)} for name, array in inputs.items()]
    return {"content": json.dumps({"inputs": tensors}).encode(), "headers": {}}


def read_answer(body: bytes, header_length: int | None) -> list[tuple[str, np.ndarray]]:
    """Names and arrays of an answer, in its order."""
    header = json.loads(body[:header_length])
    rest = b"" if header_length is None else body[header_length:]
    outputs = []
    for entry in header["outputs"]:
        datatype = datatype_named(entry["datatype"])
        assert datatype is not None
        if "data" in entry:
            array = np.array(entry["data"], dtype=datatype.dtype)
        else:
            size = entry["parameters"]["binary_data_size"]
            array = _from_bytes(rest[:size], datatype.dtype)
            rest = rest[size:]
        outputs.append((entry["name"], array.reshape(entry["shape"])))
    assert not rest
    return outputs


def _tensor(name: str, array: np.ndarray) -> dict[str, Any]:
    datatype = datatype_of_array(array.dtype)
    assert datatype is not None
    return {"name": name, "datatype": datatype.name, "shape": list(array.shape)}


def _plain(array: np.ndarray) -> list[Any]:
    flat = array.reshape(-1)
    return flat.tolist() if array.dtype.kind in "biuO" else flat.astype(np.float64).tolist()


def _to_bytes(array: np.ndarray) -> bytes:
    if array.dtype.kind != "O":
        return array.tobytes()
    encoded = [text.encode() for text in array.reshape(-1)]
    return b"".join(struct.pack("<I", len(text)) + text for text in encoded)


def _from_bytes(data: bytes, dtype: np.dtype[Any]) -> np.ndarray:
    if dtype.kind != "O":
        return np.frombuffer(data, dtype)
    strings = []
    while data:
        (length,) = struct.unpack_from("<I", data)
        strings.append(data[4 : 4 + length].decode())
        data = data[4 + length :]
    return np.array(strings, dtype=object)
