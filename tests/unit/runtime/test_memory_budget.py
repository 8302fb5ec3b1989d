"""Models share the memory of their device: one that does not fit is refused before it is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.runtime.errors import MemoryBudgetError
from deployments.runtime.memory_budget import budget_bytes
from deployments.runtime.settings import DeviceSettings
from tests.unit.runtime.lease_world import LeaseWorld

MIB = 1 << 20


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LeaseWorld]:
    world = LeaseWorld(tmp_path, DeviceSettings(memory_mb=100))
    yield world
    world.close()


def test_a_model_that_does_not_fit_beside_the_others_is_refused_with_figures(world: LeaseWorld) -> None:
    world.replica("resnet", 1, memory_bytes=70 * MIB)
    world.replica("squeezenet", 1, memory_bytes=5 * MIB)
    expected = (
        r"model 'vgg' needs 30\.0 MiB of cpu-0, where 25\.0 MiB of 100\.0 MiB are free "
        r"\(resnet 70\.0 MiB, squeezenet 5\.0 MiB\): 5\.0 MiB too much"
    )
    with pytest.raises(MemoryBudgetError, match=expected):
        world.replica("vgg", 1, memory_bytes=30 * MIB)
    world.replica("shufflenet", 1, memory_bytes=25 * MIB)


def test_what_a_model_took_is_free_again_when_it_is_gone(world: LeaseWorld) -> None:
    world.replica("resnet", 1, memory_bytes=70 * MIB).thread.close()
    world.wait_until(lambda: world.server.status()["replicas"] == [])
    world.replica("vgg", 1, memory_bytes=100 * MIB)


def test_models_keep_their_memory_when_the_allocator_is_restarted(world: LeaseWorld) -> None:
    world.replica("resnet", 1, memory_bytes=70 * MIB)
    world.restart_allocator()
    world.wait_until(lambda: world.server.status()["replicas"] != [])
    with pytest.raises(MemoryBudgetError, match=r"resnet 70\.0 MiB"):
        world.replica("vgg", 1, memory_bytes=31 * MIB)


def test_a_processor_has_no_bound_unless_one_is_stated() -> None:
    assert budget_bytes(DeviceSettings()) is None
    assert budget_bytes(DeviceSettings(memory_mb=3)) == 3 * MIB
