"""What the HTTP interfaces share, as ASGI applications without a server."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI, Request, Response

from deployments.scheduling.errors import QueueFullError
from serve_app.http import DirectApp, install_errors, read_body, response_in_pieces

LIMIT_BYTES = 3 << 20


async def echo(request: Request) -> Response:
    body = await read_body(request, LIMIT_BYTES)
    if body == b"full":
        raise QueueFullError("r-1", 7, 7)
    return response_in_pieces(memoryview(body), {"Content-Type": "application/octet-stream"})


@pytest.fixture(params=["direct", "routed"])
def client(request: pytest.FixtureRequest) -> httpx.AsyncClient:
    app = DirectApp(path="/infer", handler=echo) if request.param == "direct" else FastAPI()
    install_errors(app)
    if request.param == "routed":
        app.post("/infer")(echo)

    @app.get("/infer")
    async def get() -> str:
        return "not posted"

    return httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://here")


@pytest.mark.parametrize("num_bytes", [0, 100, 1_000_000])
async def test_a_body_goes_in_and_out_unchanged(client: httpx.AsyncClient, num_bytes: int) -> None:
    body = bytes(range(256)) * (num_bytes // 256 + 1)
    answer = await client.post("/infer", content=body[:num_bytes])
    assert (answer.status_code, answer.content) == (200, body[:num_bytes])
    assert answer.headers["content-length"] == str(num_bytes)
    assert answer.headers["content-type"] == "application/octet-stream"


async def test_errors_have_status_class_and_message_either_way(client: httpx.AsyncClient) -> None:
    answer = await client.post("/infer", content=b"full")
    assert (answer.status_code, list(answer.json())) == (503, ["error"])
    assert (answer.headers["error-class"], answer.headers["error-args"]) == ("QueueFullError", '["r-1", 7, 7]')
    assert answer.headers["retry-after"] == "1"
    too_large = await client.post("/infer", content=bytes(LIMIT_BYTES + 1))
    assert (too_large.status_code, too_large.headers["error-class"]) == (413, "BodyTooLargeError")


async def test_other_methods_and_paths_go_the_usual_way(client: httpx.AsyncClient) -> None:
    assert (await client.get("/infer")).json() == "not posted"
    assert (await client.post("/infer/more")).status_code == 404
