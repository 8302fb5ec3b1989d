"""Plain Ray Serve, the way its documentation teaches: one deployment per model, each an HTTP ingress.

python -m benchmarks.serve.peers.ray_serve SPEC.json

Inference has threads of its own, as the documentation recommends for blocking code, so that the replica's event loop
stays free; they are what is pinned to the device's core.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

from benchmarks.serve.peers.spec import PeerSpec, decode_tensors, encode_tensors, run_session


class Model:
    """Serves one model."""

    def __init__(self, model: str, spec: PeerSpec) -> None:
        """Load the model."""
        self._threads = ThreadPoolExecutor(spec.workers, initializer=spec.pin)
        self._session = self._threads.submit(spec.open_session, model).result()

    async def __call__(self, request: Request) -> Response:
        """Answer an inference request in binary form."""
        inputs = decode_tensors(await request.body())
        loop = asyncio.get_running_loop()
        outputs = await loop.run_in_executor(self._threads, run_session, self._session, inputs)
        body, headers = encode_tensors(outputs)
        return Response(body, media_type="application/octet-stream", headers=headers)


def main(spec_path: str) -> None:
    """Serve until SIGINT or SIGTERM."""
    spec = PeerSpec.load(spec_path)
    ray.init(include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": spec.host, "port": spec.port})
    deployment = serve.deployment(
        max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0}, logging_config={"enable_access_log": False}
    )(Model)
    for model in spec.models:
        application = deployment.bind(model, spec)
        serve.run(application, name=model, route_prefix=f"/v2/models/{model}")
    print(f"ready: {spec.url}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    serve.shutdown()  # type: ignore[no-untyped-call]
    ray.shutdown()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    main(sys.argv[1])
