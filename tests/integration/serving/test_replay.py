"""The same arrivals through the pure core and through the real allocator actor give the same order of grants."""

from __future__ import annotations

import random
import time
from collections import deque
from pathlib import Path

import pytest
import ray

from deployments.runtime.allocator_actor import find_socket
from deployments.runtime.messages import Finish, Grant, Submit, Welcome, Yield
from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.policies.table import make_policy
from deployments.scheduling.request import Request, RequestId
from deployments.simulation.grant_order import grant_order
from tests.integration.serving.observe import status, wait_until
from tests.raw_replica import RawReplica, make_request

MODELS_S = {"short": (0.002,), "middle": (0.004, 0.003, 0.003), "long": (0.011, 0.009, 0.01, 0.012)}


def make_arrivals(num_requests: int, seed: int) -> list[Request]:
    """Requests of three models that load the device fully, with arrivals from now on."""
    random_numbers = random.Random(seed)
    arrival_s, requests = time.monotonic(), []
    for index in range(num_requests):
        arrival_s += random_numbers.expovariate(1 / 0.018)
        times_s = MODELS_S[random_numbers.choice(list(MODELS_S))]
        requests.append(make_request(f"r{index}", owner="replica", arrival_s=arrival_s, block_times_s=times_s))
    return requests


class VirtualReplica:
    """Runs blocks in virtual time, and leaves every decision to the real allocator."""

    def __init__(self, socket_path: Path, settings: DeviceSettings) -> None:
        self._raw = RawReplica(socket_path, settings, "replica")
        assert isinstance(self._raw.receive(), Welcome)
        self._device = settings.device
        self._requests: dict[RequestId, Request] = {}
        self._blocks_done: dict[RequestId, int] = {}
        self._grant: Grant | None = None
        self._block_ends_s = 0.0
        self.order: list[tuple[RequestId, int]] = []

    def run(self, requests: list[Request]) -> list[tuple[RequestId, int]]:
        """The turns as (who, first block)."""
        arrivals = deque(requests)
        while arrivals or self._grant is not None:
            if self._grant is None or (arrivals and arrivals[0].arrival_s < self._block_ends_s):
                self._arrive(arrivals.popleft())
            else:
                self._reach_boundary(self._grant)
        self._raw.close()
        return self.order

    def _arrive(self, request: Request) -> None:
        self._requests[request.request_id] = request
        self._blocks_done[request.request_id] = 0
        self._raw.send(Submit(request=request))
        if self._grant is None:
            self._take_grant(request.arrival_s)
        else:
            wait_until(lambda: request.request_id in self._known(), "the allocator knows the request")

    def _known(self) -> set[str]:
        snapshot = status(self._device)["snapshot"]
        return {view["request_id"] for view in [*snapshot["waiting"], *snapshot["holders"]]}

    def _take_grant(self, now_s: float) -> None:
        grant = self._raw.receive()
        assert isinstance(grant, Grant)
        done = self._blocks_done[grant.request_id]
        if not self.order or self.order[-1][0] != grant.request_id:
            self.order.append((grant.request_id, done))
        self._grant = grant
        self._begin_block(grant, now_s)

    def _begin_block(self, grant: Grant, now_s: float) -> None:
        done = self._blocks_done[grant.request_id]
        self._block_ends_s = now_s + self._requests[grant.request_id].block_times_s[done]
        self._raw.page.begin(grant.lease, done, time.monotonic_ns())

    def _reach_boundary(self, grant: Grant) -> None:
        request_id, now_s = grant.request_id, self._block_ends_s
        self._blocks_done[request_id] += 1
        done = self._blocks_done[request_id]
        if done == len(self._requests[request_id].block_times_s):
            self._raw.page.end()
            del self._requests[request_id]
            self._raw.send(Finish(request_id=request_id, lease=grant.lease))
            self._grant = None
            if self._requests:
                self._take_grant(now_s)
        elif self._raw.page.is_revoked(grant.lease):
            self._raw.page.end()
            self._raw.send(Yield(request_id=request_id, lease=grant.lease, blocks_done=done))
            self._take_grant(now_s)
        else:
            self._begin_block(grant, now_s)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("settings", "preemption"),
    [
        (DeviceSettings(index=8, mode="fifo"), "never"),
        (DeviceSettings(index=9, mode="slo", policy="srpt"), "always"),
    ],
    ids=["fifo", "srpt"],
)
def test_the_actor_grants_in_the_order_of_the_core(settings: DeviceSettings, preemption: str) -> None:
    requests = make_arrivals(150, seed=3)
    expected = grant_order(requests, make_policy(settings.sharing.policy), preemption=preemption)  # type: ignore[arg-type]
    assert ray.is_initialized()
    order = VirtualReplica(find_socket(settings), settings).run(requests)
    assert order == expected
    if preemption == "always":
        assert len(expected) > len(requests)  # the trace does make the policy preempt
