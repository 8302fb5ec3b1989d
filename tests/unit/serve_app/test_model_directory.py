"""Handles to models: kept, looked up anew beside the requests, forgotten when the model goes."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from serve_app.model_directory import ModelDirectory, ModelState
from serve_app.protocol.errors import ModelNotReadyError, UnknownModelError


class Cluster:
    """Models with states; gives a new handle at each look-up."""

    def __init__(self, **states: Any) -> None:
        self.states = states
        self.num_look_ups = 0
        self._numbers = itertools.count()

    def find_states(self) -> list[ModelState]:
        self.num_look_ups += 1
        return [ModelState(name=n, version="1", state=state, reason="") for n, state in self.states.items()]

    def find_handle(self, model: str) -> Any:
        return f"{model} {next(self._numbers)}"

    def directory(self, handle_age_s: float = 60.0) -> ModelDirectory:
        return ModelDirectory(self.find_states, self.find_handle, handle_age_s=handle_age_s)


async def test_a_handle_is_looked_up_once_for_all_who_ask() -> None:
    cluster = Cluster(m="READY")
    directory = cluster.directory()
    handles = await asyncio.gather(*(directory.handle("m") for _ in range(10)))
    assert (set(handles), await directory.handle("m"), cluster.num_look_ups) == ({"m 0"}, "m 0", 1)


async def test_an_unknown_model_is_told_with_those_that_there_are() -> None:
    with pytest.raises(UnknownModelError, match="no model 'x'; served here: a, b"):
        await Cluster(a="READY", b="LOADING").directory().handle("x")


async def test_a_model_that_is_not_up_yet_says_so_and_is_found_later() -> None:
    cluster = Cluster(m="LOADING")
    directory = cluster.directory()
    with pytest.raises(ModelNotReadyError, match="model 'm' is LOADING"):
        await directory.handle("m")
    cluster.states["m"] = "READY"
    assert await directory.handle("m") == "m 0"


async def test_a_model_that_is_being_updated_keeps_its_handle_and_a_deleted_one_loses_it() -> None:
    cluster = Cluster(m="READY")
    directory = cluster.directory(handle_age_s=-1.0)  # every handle is old
    await directory.handle("m")
    cluster.states["m"] = "LOADING"
    for _ in range(3):
        assert await directory.handle("m") == "m 0"
        await settle(directory)
    del cluster.states["m"]
    assert await directory.handle("m") == "m 0"
    await settle(directory)
    with pytest.raises(UnknownModelError):
        await directory.handle("m")


async def settle(directory: ModelDirectory) -> None:
    """Until no look-up is in progress."""
    await asyncio.gather(*directory._look_ups.values(), return_exceptions=True)
    await asyncio.sleep(0)
