"""``ModelInfer`` of a server as the load generators call it: serialised messages of any size, in and out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

_METHOD = "/inference.GRPCInferenceService/ModelInfer"
_NO_BOUND = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


@asynccontextmanager
async def open_infer(address: str) -> AsyncIterator[grpc.aio.UnaryUnaryMultiCallable]:
    """The method over a channel that is closed in the end; ``address`` is HOST:PORT."""
    async with grpc.aio.insecure_channel(address, options=_NO_BOUND) as channel:
        yield channel.unary_unary(_METHOD)
