# mypy: ignore-errors
# What it imports is in another environment.
"""LitServe, the way its documentation teaches: one ``LitAPI`` per model, each in a process of its own.

python benchmarks/serve/peers/lit_serve.py SPEC.json, in an environment with requirements.txt of this folder.

LitServe reads the annotations of ``decode_request`` as they stand: they are not postponed in this file.
"""

import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Annotated, Any

import litserve
from fastapi import Body, Response
from spec import PeerSpec, decode_tensors, encode_tensors, run_session

_POLL_S = 0.2


class Model(litserve.LitAPI):
    """Serves one model; every method but the constructor runs in the model's own process."""

    def __init__(self, model: str, spec: PeerSpec) -> None:
        """Nothing is loaded yet."""
        super().__init__(api_path=f"/v2/models/{model}/infer")
        self._name = model
        self._peer = spec

    def setup(self, device: str) -> None:
        """Load the model."""
        self._peer.pin()
        self._session = self._peer.open_session(self._name)

    def decode_request(self, request: Annotated[bytes, Body(media_type="application/octet-stream")]) -> dict[str, Any]:
        """The inputs by name."""
        return decode_tensors(request)

    def predict(self, x: dict[str, Any]) -> dict[str, Any]:
        """The outputs by name."""
        return run_session(self._session, x)

    def encode_response(self, output: dict[str, Any]) -> Response:
        """The answer in binary form."""
        body, headers = encode_tensors(output)
        return Response(body, media_type="application/octet-stream", headers=headers)


def say_when_ready(url: str) -> None:
    """Print the line that the benchmark waits for."""
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health") as answer:
                if answer.status == 200:
                    print(f"ready: {url}", flush=True)
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(_POLL_S)


def main(spec_path: str) -> None:
    """Serve until SIGINT."""
    spec = PeerSpec.load(spec_path)
    accelerator = "cuda" if spec.provider.startswith("CUDA") else "cpu"
    server = litserve.LitServer(
        [Model(model, spec) for model in spec.models],
        accelerator=accelerator,
        devices=1,
        workers_per_device=spec.workers,
        timeout=False,
    )
    threading.Thread(target=say_when_ready, args=(spec.url,), daemon=True).start()
    server.run(
        host=spec.host,
        port=spec.port,
        num_api_servers=1,  # all of them would share one core here
        log_level="warning",
        generate_client_file=False,
        access_log=False,
    )


if __name__ == "__main__":
    main(sys.argv[1])
