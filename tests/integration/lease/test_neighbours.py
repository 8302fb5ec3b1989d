"""Replicas of a model on one node: where they sit, and how one runs a request for another."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployments.runtime.errors import InputRefusedError, NeighbourGoneError
from deployments.runtime.neighbour_link import NeighbourLink, start_link
from deployments.runtime.seats import Seat, neighbours_of

DEVICES = ("cpu-0", "cpu-1")


def test_seats_are_shared_out_evenly_and_a_free_one_is_taken_again(tmp_path: Path) -> None:
    seats = [Seat(tmp_path, DEVICES) for _ in range(4)]
    assert [seat.device for seat in seats] == ["cpu-0", "cpu-1", "cpu-0", "cpu-1"]
    os.close(seats[1]._descriptor)  # as the system does when the process ends
    assert Seat(tmp_path, DEVICES).device == "cpu-1"


@asynccontextmanager
async def link_to(path: Path, **methods: Callable[..., Awaitable[Any]]) -> AsyncIterator[NeighbourLink]:
    """Calls to these methods in this very loop; ends with all that was begun."""
    server, link = await start_link(path, methods), NeighbourLink(path)
    yield link
    link.close()
    server.close()
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


async def double(array: np.ndarray, *, times: int = 1) -> np.ndarray:
    return array * 2**times


async def refuse(array: np.ndarray) -> None:
    raise InputRefusedError("missing input 'x'")


async def test_a_call_brings_arrays_there_and_back_and_errors_too(tmp_path: Path) -> None:
    seat, other = Seat(tmp_path, DEVICES), Seat(tmp_path, DEVICES)
    array = np.arange(1_000_000, dtype=np.float32)
    text = np.array(["a", "bc"], dtype=object)
    async with link_to(seat.socket_path, double=double, refuse=refuse) as link:
        assert neighbours_of(other) == {seat.socket_path: "cpu-0"}
        np.testing.assert_array_equal(await link.call("double", array, times=2), array * 4, strict=True)
        doubled = np.array(["aa", "bcbc"], dtype=object)
        np.testing.assert_array_equal(await link.call("double", text), doubled, strict=True)
        with pytest.raises(InputRefusedError, match="missing input 'x'"):
            await link.call("refuse", array)


async def test_a_call_that_is_given_up_is_cancelled_where_it_runs(tmp_path: Path) -> None:
    has_begun, was_cancelled = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled.set()
            raise

    async with link_to(tmp_path / "a.sock", wait=wait, double=double) as link:
        call = asyncio.ensure_future(link.call("wait"))
        await has_begun.wait()
        call.cancel()
        await asyncio.wait_for(was_cancelled.wait(), timeout=10)
        assert (await link.call("double", np.ones(1)))[0] == 2
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_neighbour_that_is_not_there_or_ends_in_the_middle_is_gone(tmp_path: Path) -> None:
    with pytest.raises(NeighbourGoneError, match=r"replica at a\.sock is gone"):
        await NeighbourLink(tmp_path / "a.sock").call("double", np.ones(1))

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.close()

    server = await asyncio.start_unix_server(hang_up, tmp_path / "b.sock")
    with pytest.raises(NeighbourGoneError):
        await NeighbourLink(tmp_path / "b.sock").call("double", np.ones(1))
    server.close()
