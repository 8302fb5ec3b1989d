"""What a page says of a device is what its allocator would say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployments.runtime.device_view import DeviceView
from deployments.runtime.queue_page import MAX_ENTRIES, QueuePage
from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.policies.table import make_policy
from deployments.scheduling.request import Request, RequestId

NOW_S = 100.0


def request(
    name: str, time_s: float, *, alpha: float = 4.0, priority: int = 1, num_blocks: int = 2, age_s: float = 0.0
) -> Request:
    return Request(
        request_id=RequestId(name),
        model=name[0],
        owner="replica",
        arrival_s=NOW_S - age_s,
        isolated_s=time_s,
        block_times_s=(time_s / num_blocks,) * num_blocks,
        deadline_s=NOW_S + alpha * time_s,
        priority=priority,
    )


class World:
    """A scheduling core whose page is read."""

    def __init__(self, folder: Path, device: DeviceSettings) -> None:
        self.page = QueuePage(folder, device)
        self.core = DeviceAllocator(policy=make_policy(device.sharing.policy), watcher=self.page)
        self.view = DeviceView(folder)

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_error: object) -> None:
        self.view.close()
        self.page.close()

    def tell(self, now_s: float = NOW_S) -> None:
        self.page.tell(self.core, now_s)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path, DeviceSettings(mode="slo")) as world:
        yield world


arrivals = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 64), st.integers(1, 9), st.sampled_from([1, 2])), max_size=12
)


@pytest.mark.parametrize("mode", ["slo", "fifo", "oyst"])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(arrivals, st.data())
def test_the_forecast_is_the_allocators_own(
    tmp_path: Path, mode: str, queue: list[tuple[str, int, int, int]], data: st.DataObject
) -> None:
    with World(tmp_path, DeviceSettings(mode=mode)) as world:
        core, view = world.core, world.view
        requests = [
            request(f"{model}{number}", time_64 / 64, alpha=alpha, priority=priority, age_s=(20 - number) / 1024)
            for number, (model, time_64, alpha, priority) in enumerate(queue)
        ]
        for each in requests:
            core.submit(each, NOW_S)
        for each in data.draw(st.lists(st.sampled_from(requests[1:]), unique_by=id)) if len(requests) > 1 else ():
            core.cancel(each.request_id, NOW_S)
        world.tell()
        newcomer = request("n", 0.25, alpha=2.0)
        assert view.is_idle == core.is_idle
        assert view.work_s(NOW_S) == pytest.approx(core.work_s(NOW_S))
        assert view.predicted_wait_s(newcomer, NOW_S) == pytest.approx(core.predicted_wait_s(newcomer, NOW_S))


def test_a_turn_goes_on_while_nobody_says_so(world: World) -> None:
    world.core.submit(request("a", 8.0), NOW_S)
    world.tell()
    newcomer = request("n", 1.0, alpha=2.0)
    waits_s = [world.view.predicted_wait_s(newcomer, NOW_S + passed_s) for passed_s in (0.0, 3.0, 5.0, 9.0)]
    assert waits_s == [4.0, 1.0, 3.0, 0.0]
    assert [world.view.work_s(NOW_S + passed_s) for passed_s in (0.0, 3.0, 9.0)] == [8.0, 5.0, 0.0]
    assert not world.view.is_idle


def test_a_page_that_is_full_tells_the_whole_work_for_the_wait(world: World) -> None:
    for number in range(MAX_ENTRIES + 10):
        world.core.submit(request(f"a{number}", 1.0), NOW_S)
    world.tell()
    assert world.view.predicted_wait_s(request("n", 0.1), NOW_S) == world.core.work_s(NOW_S)
    for number in range(10, MAX_ENTRIES + 10):
        world.core.cancel(RequestId(f"a{number}"), NOW_S)
    world.tell()
    newcomer = request("n", 0.1)
    assert world.view.predicted_wait_s(newcomer, NOW_S) == world.core.predicted_wait_s(newcomer, NOW_S)


def test_other_settings_are_seen_by_those_who_read(world: World) -> None:
    for name in "abc":
        world.core.submit(request(name, 1.0), NOW_S)
    world.tell()
    newcomer = request("n", 0.125, alpha=1.0)
    assert world.view.predicted_wait_s(newcomer, NOW_S) == 0.5
    world.page.tell_settings(DeviceSettings(mode="fifo"))
    assert world.view.predicted_wait_s(newcomer, NOW_S) == 3.0


def test_a_device_whose_allocator_is_gone_is_never_idle_and_makes_wait_forever(tmp_path: Path) -> None:
    world = World(tmp_path, DeviceSettings())
    assert world.view.is_idle
    world.page.close()
    assert not world.view.is_idle
    assert world.view.predicted_wait_s(request("n", 1.0), NOW_S) == world.view.work_s(NOW_S) == float("inf")
    world.page = QueuePage(tmp_path, DeviceSettings())
    assert world.view.is_idle
    world.view.close()
    world.page.close()
