"""The way to a server of the Open Inference Protocol v2 over HTTP.

aiohttp was chosen by measuring: a 600 KB POST over loopback cost 0.7 ms of client CPU, httpx 3.4 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import numpy.typing as npt

from benchmarks.load.errors import IsolatedTimeUnknownError, ModelFailedError, ServerUnreachableError
from benchmarks.load.inputs import PreparedRequest
from benchmarks.load.loops import Failure, Sender
from serve_app.protocol.client_codec import decode_infer_response
from split_tool.errors import SplitToolError
from split_tool.plan import SplitPlan


def open_session(*, timeout_s: float) -> aiohttp.ClientSession:
    """A session without a bound on connections, so that none waits for another.

    Idle connections are dropped before servers do it (uvicorn: 5 s), because a request on a connection that is
    being closed fails through nobody's fault.
    """
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=4)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=timeout_s))


async def is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    """Whether a server answers at ``url`` and says that it is ready; never raises for one that does not."""
    try:
        async with session.get(f"{url}/v2/health/ready") as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


async def fetch_metadata(session: aiohttp.ClientSession, url: str, models: Sequence[str] = ()) -> dict[str, Any]:
    """Model name -> its metadata, for ``models`` or, without them, for all that the server's index says are ready.

    Raises:
        ServerUnreachableError: If the server does not answer as the protocol says, or has no model.
    """
    names = list(models) or await _index(session, url)
    if not names:
        raise ServerUnreachableError(f"the server at {url} has no model that is ready")
    return {name: await fetch_json(session, "GET", f"{url}/v2/models/{name}") for name in names}


def isolated_times_s(metadata: Mapping[str, Any], plans: Path) -> dict[str, float]:
    """Isolated time of each model in seconds: what the server states in its metadata, else the plan in ``plans``.

    Raises:
        IsolatedTimeUnknownError: If neither knows it.
    """
    times_s: dict[str, float] = {}
    for model, answer in metadata.items():
        stated_ms = answer.get("parameters", {}).get("isolated_ms")
        if stated_ms is None:
            try:
                stated_ms = SplitPlan.load(plans / model).isolated_ms
            except SplitToolError as error:
                raise IsolatedTimeUnknownError(
                    f"how long does '{model}' take alone? The server does not say (parameters.isolated_ms), and {error}"
                ) from error
        times_s[model] = float(stated_ms) / 1e3
    return times_s


async def measure_alone(sender: Sender, models: Iterable[str], *, num_repeats: int = 3) -> dict[str, float]:
    """Median response time of each model with nothing else going on, in seconds, after one warm-up.

    Raises:
        ModelFailedError: If a model answers with an error.
    """
    times_s: dict[str, float] = {}
    loop = asyncio.get_running_loop()
    for model in models:
        samples_s: list[float] = []
        for _ in range(num_repeats + 1):
            start_s = loop.time()
            failure = await sender.send(model)
            samples_s.append(loop.time() - start_s)
            if failure is not None:
                raise ModelFailedError(f"model '{model}' does not answer: {failure.kind}: {failure.detail}")
        times_s[model] = sorted(samples_s[1:])[num_repeats // 2]
    return times_s


class HttpSender:
    """Requests in binary form to any server of the protocol."""

    def __init__(self, session: aiohttp.ClientSession, url: str, requests: Mapping[str, PreparedRequest]) -> None:
        """Connects with the first request.

        Args:
            session: From ``open_session``; its time limit is each request's.
            url: Of the server, without a slash at the end.
            requests: What is sent, by model.
        """
        self._session = session
        self._url = url
        self._requests = requests

    async def send(self, model: str) -> Failure | None:
        """See ``Sender``."""
        try:
            status, _, body = await self._post(model)
        except TimeoutError:
            return Failure("no answer in time", f"waited {self._session.timeout.total} s")
        except (aiohttp.ClientError, OSError) as error:
            return Failure(type(error).__name__, str(error))
        if status == 200:
            return None
        return Failure(f"HTTP {status}", body[:500].decode(errors="replace"))

    async def outputs(self, model: str) -> dict[str, npt.NDArray[Any]]:
        """See ``Sender``."""
        status, header_length, body = await self._post(model)
        if status != 200:
            raise ModelFailedError(f"model '{model}' does not answer: HTTP {status}: {body[:500]!r}")
        return decode_infer_response(body, len(body) if header_length is None else int(header_length))

    async def _post(self, model: str) -> tuple[int, str | None, bytes]:
        """Status, length of the JSON part, and body of the answer."""
        request = self._requests[model]
        headers = {
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": str(request.header_length),
        }
        async with self._session.post(f"{self._url}{request.path}", data=request.body, headers=headers) as response:
            return response.status, response.headers.get("Inference-Header-Content-Length"), await response.read()


async def post(session: aiohttp.ClientSession, address: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """The body of the answer.

    Raises:
        ModelFailedError: If the answer is another than HTTP 200.
    """
    async with session.post(address, data=body, headers=headers) as response:
        answer = await response.read()
        if response.status != 200:
            raise ModelFailedError(f"{address}: HTTP {response.status}: {answer[:300]!r}")
        return answer


async def fetch_json(session: aiohttp.ClientSession, method: str, address: str) -> Any:
    """The JSON that the server answers.

    Raises:
        ServerUnreachableError: If it does not answer with HTTP 200 and JSON.
    """
    try:
        async with session.request(method, address) as response:
            if response.status != 200:
                raise ServerUnreachableError(
                    f"{method} {address} gives HTTP {response.status}: {(await response.text())[:200]}"
                )
            return await response.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise ServerUnreachableError(f"{method} {address} does not work: {error}") from error


async def _index(session: aiohttp.ClientSession, url: str) -> list[str]:
    """Names of the models that the server has; those in another state than READY are left out."""
    entries = await fetch_json(session, "POST", f"{url}/v2/repository/index")
    return [entry["name"] for entry in entries if entry.get("state", "READY") == "READY"]
