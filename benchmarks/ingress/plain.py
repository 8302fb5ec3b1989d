"""The rival: a plain Ray Serve deployment that runs the same ONNX Runtime session, as Serve's own documentation has it.

No protocol: the body is the tensor (raw float32, or ``{"data": [...]}``), and so is the answer. Serve reads the
annotations of a builder as they stand: they are not postponed in this file.
"""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnxruntime as ort
from ray import serve
from ray.serve import Application
from starlette.requests import Request
from starlette.responses import JSONResponse, Response


@serve.deployment(ray_actor_options={"num_cpus": 0}, max_ongoing_requests=100)
class Plain:
    """One session with one thread, on the same core as our device."""

    def __init__(self, path: str, cores: list[int], name: str, shape: list[int]) -> None:
        """Load the model at ``path``, which takes ``name`` in ``shape``; its thread is pinned to ``cores``, if any."""
        self._name, self._shape = name, shape
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._thread = ThreadPoolExecutor(1, initializer=_pin, initargs=(cores,))

    async def __call__(self, request: Request) -> Response:
        """The model's output for the tensor in the body."""
        is_json = request.headers["content-type"] == "application/json"
        if is_json:
            x = np.array((await request.json())["data"], np.float32)
        else:
            x = np.frombuffer(await request.body(), np.float32)
        loop = asyncio.get_running_loop()
        (y,) = await loop.run_in_executor(self._thread, self._session.run, None, {self._name: x.reshape(self._shape)})
        return JSONResponse({"data": y[0].tolist()}) if is_json else Response(y.tobytes())


def _pin(cores: list[int]) -> None:
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def plain(args: dict[str, Any]) -> Application:
    """The application builder: ``import_path: benchmarks.ingress.plain:plain``."""
    application: Application = Plain.bind(args["path"], args["cores"], args["input"], args["shape"])  # type: ignore[attr-defined]
    return application
