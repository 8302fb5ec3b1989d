"""Calls from one replica of a model to another on the same node, over a Unix socket.

A connection carries one call at a time: a call is given up by closing the connection, and a replica that dies closes
it too. Arrays go as they lie in memory, not through the pickle that carries the rest; sockets and folder are private
to the user, as are those of the cluster itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import struct
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from deployments.runtime.errors import NeighbourGoneError

_LENGTH = struct.Struct("!Q")
_LIMIT_BYTES = 1 << 20

Methods = Mapping[str, Callable[..., Awaitable[Any]]]


async def start_link(path: Path, methods: Methods) -> asyncio.Server:
    """Answer calls of these methods at ``path`` from now on.

    Raises:
        OSError: If the path is too long or the folder not writable.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await _answer_one(reader, writer, methods):
                pass
        writer.close()

    unready = path.with_suffix(".new")  # nobody may find it before it listens
    server = await asyncio.start_unix_server(serve, unready, limit=_LIMIT_BYTES)
    unready.rename(path)
    return server


async def _answer_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, methods: Methods) -> bool:
    """Answer the next call; False if the caller has gone, and then the call is cancelled."""
    method, arguments, options = await _receive(reader)
    answer = asyncio.ensure_future(methods[method](*arguments, **options))
    gone = asyncio.ensure_future(reader.read(1))  # the caller says nothing before it has the answer
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            return False
    finally:
        for task in (answer, gone):
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
    error = answer.exception()
    await _send(writer, answer.result() if error is None else error)
    return True


class NeighbourLink:
    """Calls to one neighbour; used by one event loop."""

    def __init__(self, path: Path) -> None:
        """Calls to the replica that listens at ``path``; connects when it has to."""
        self._path = path
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """What the neighbour's method gives; if this is cancelled, so is the call.

        Raises:
            NeighbourGoneError: If the neighbour is not there, or ended before it had answered.
            Exception: What the method raised.
        """
        connection = None
        try:
            connection = self._free.pop() if self._free else await self._connect()
            reader, writer = connection
            await _send(writer, (method, arguments, options))
            answer = await _receive(reader)
        except BaseException as error:
            if connection is not None:
                connection[1].close()
            if not isinstance(error, OSError | asyncio.IncompleteReadError):
                raise
            self.close()
            raise NeighbourGoneError(f"the replica at {self._path.name} is gone: ask another one") from error
        self._free.append(connection)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        """Close the connections that carry no call."""
        while self._free:
            self._free.pop()[1].close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self._path, limit=_LIMIT_BYTES)


async def _send(writer: asyncio.StreamWriter, value: object) -> None:
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [buffer.raw() for buffer in buffers]
    lengths = b"".join(_LENGTH.pack(length) for length in (len(parts), len(body), *(part.nbytes for part in parts)))
    writer.write(lengths + body)
    for part in parts:
        writer.write(part)
    await writer.drain()


async def _receive(reader: asyncio.StreamReader) -> Any:
    """The next value.

    Raises:
        asyncio.IncompleteReadError: If the other side is gone.
    """
    num_parts, num_bytes = struct.unpack("!QQ", await reader.readexactly(2 * _LENGTH.size))
    lengths = struct.unpack(f"!{num_parts}Q", await reader.readexactly(num_parts * _LENGTH.size))
    body = await reader.readexactly(num_bytes)
    return pickle.loads(body, buffers=[await reader.readexactly(length) for length in lengths])
