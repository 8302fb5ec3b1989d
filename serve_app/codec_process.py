"""A child process that runs functions for this one: what would hold the interpreter lock for long runs there.

``CodecProcess.call`` sends a pickled call over a socket pair and gives back what the function returned or raised. Large
arrays and bodies (``pickle.PickleBuffer``) travel beside the pickle, from buffer to buffer: neither side copies them
while it holds the lock. The child ends when its socket closes, so it never outlives this process.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from serve_app.protocol.errors import CodecProcessDiedError

_NICENESS = 10
_SIZE = struct.Struct("<Q")

Result = TypeVar("Result")


class CodecProcess:
    """One child, one call at a time in the order of arrival; it is started with the first call."""

    def __init__(self, *, avoided_cores: Collection[int] = ()) -> None:
        """Nothing runs yet.

        Args:
            avoided_cores: Processor cores that the child keeps off, where others are left.
        """
        self._avoided_cores = avoided_cores
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="codec-process")
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    async def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """What ``function``, of a module, returns in the child.

        Raises:
            CodecProcessDiedError: If the child ended meanwhile; the next call starts another.
            Exception: What the function raised.
        """
        loop = asyncio.get_running_loop()
        result: Result | Exception = await loop.run_in_executor(self._thread, self._call, function, arguments)
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        """End the child once the call in progress is done."""
        self._thread.submit(self._forget_child)
        self._thread.shutdown(wait=False)

    def _call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if self._socket is None:
            self._start_child()
        assert self._socket is not None
        try:
            _send(self._socket, (function, arguments))
            return _receive(self._socket)
        except (OSError, EOFError) as error:
            self._forget_child()
            raise CodecProcessDiedError("the process that reads and writes large JSON died: send it again") from error

    def _start_child(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            cores = ",".join(map(str, self._avoided_cores))
            command = [sys.executable, "-m", "serve_app.codec_process", str(theirs.fileno()), cores]
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])

    def _forget_child(self) -> None:
        if self._socket is not None and self._child is not None:
            self._socket.close()
            self._child.wait()
            self._socket = self._child = None


def _send(connection: socket.socket, value: object) -> None:
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(pickled), *(buffer.raw() for buffer in buffers)]
    connection.sendall(b"".join(_SIZE.pack(size) for size in (len(parts), *map(len, parts))))
    for part in parts:
        connection.sendall(part)


def _receive(connection: socket.socket) -> Any:
    (num_parts,) = _SIZE.unpack(_read(connection, _SIZE.size))
    sizes = [_SIZE.unpack(_read(connection, _SIZE.size))[0] for _ in range(num_parts)]
    pickled, *buffers = [_read(connection, size) for size in sizes]
    return pickle.loads(pickled, buffers=buffers)


def _read(connection: socket.socket, num_bytes: int) -> memoryview:
    """The next bytes; into memory that the kernel, not the interpreter, touches first."""
    data = np.empty(num_bytes, np.uint8).data
    missing = data
    while missing:
        num_read = connection.recv_into(missing)
        if num_read == 0:
            raise EOFError("the other side has closed the connection")
        missing = missing[num_read:]
    return data


def _serve(connection: socket.socket) -> None:
    """Run calls until the other side is gone."""
    while True:
        try:
            function, arguments = _receive(connection)
        except EOFError:
            return
        try:
            result = function(*arguments)
        except Exception as error:
            result = error
        try:
            _send(connection, result)
        except OSError:
            return


def main() -> None:
    """The child: ``python -m serve_app.codec_process DESCRIPTOR AVOIDED_CORES``."""
    os.nice(_NICENESS)
    cores = {int(core) for core in sys.argv[2].split(",") if core}
    if hasattr(os, "sched_setaffinity") and (others := os.sched_getaffinity(0) - cores):
        os.sched_setaffinity(0, others)
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        _serve(connection)


if __name__ == "__main__":
    main()
