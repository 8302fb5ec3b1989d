"""The state machine, rule by rule."""

from __future__ import annotations

import pytest

from deployments.scheduling.decision import Decision
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.errors import (
    DuplicateRequestError,
    InvalidRequestError,
    ModelQueueFullError,
    NotHolderError,
    ProgressError,
    QueueFullError,
    TwoHoldersError,
    UnknownRequestError,
)
from deployments.scheduling.policies.table import make_policy

from .builders import allocator, request

LONG = request("long", 1.0, 1.0, 1.0)
SHORT = request("short", 0.5, arrival_s=0.25)


def granted(decision: Decision) -> list[str]:
    return [each.request_id for each in decision.grants]


def test_a_free_device_is_granted_at_once() -> None:
    device = allocator()
    assert granted(device.submit(LONG, 0.0)) == ["long"]
    assert device.holder == LONG


def test_a_shorter_newcomer_makes_srpt_revoke_the_holder_and_gets_the_device_at_the_boundary() -> None:
    device = allocator("srpt")
    device.submit(LONG, 0.0)
    decision = device.submit(SHORT, 0.25)
    assert decision.revoke == "long"
    assert not decision.grants
    assert granted(device.yield_at_boundary(LONG.request_id, blocks_done=1, now_s=1.0)) == ["short"]
    assert granted(device.finish(SHORT.request_id, 1.5)) == ["long"]


def test_fifo_never_revokes_and_a_yield_gives_the_device_back_to_the_same_request() -> None:
    device = allocator("fifo")
    device.submit(LONG, 0.0)
    assert device.submit(SHORT, 0.25) == Decision()
    assert granted(device.yield_at_boundary(LONG.request_id, blocks_done=1, now_s=1.0)) == ["long"]


def test_a_holder_in_its_last_block_is_not_revoked() -> None:
    device = allocator("srpt")
    device.submit(LONG, 0.0)
    device.progress(LONG.request_id, 2, 2.0, 2.0)
    assert device.submit(SHORT, 2.25).revoke is None


def test_the_holder_keeps_the_device_when_its_challenger_is_cancelled_before_the_boundary() -> None:
    device = allocator("srpt")
    device.submit(LONG, 0.0)
    device.submit(SHORT, 0.25)
    assert device.cancel(SHORT.request_id, 0.5).keep == "long"


def test_progress_moves_the_boundary_that_is_decided_about() -> None:
    device = allocator("srpt")
    device.submit(LONG, 0.0)
    device.progress(LONG.request_id, 1, 1.0, 1.25)
    newcomer = request("other", 1.0, arrival_s=1.25)
    assert device.submit(newcomer, 1.25).revoke is None  # 1 s behind the running block: equal, the holder goes on


def test_news_of_fewer_blocks_or_of_an_ended_request_is_ignored() -> None:
    device = allocator("srpt")
    device.submit(LONG, 0.0)
    device.progress(LONG.request_id, 2, 2.0, 2.0)
    before = device.snapshot(3.0)
    device.progress(LONG.request_id, 1, 1.0, 3.0)
    device.progress(SHORT.request_id, 1, 1.0, 3.0)
    assert device.snapshot(3.0) == before


def test_a_cancelled_holder_is_revoked_once_and_never_chosen_again() -> None:
    device = allocator("fifo")
    device.submit(LONG, 0.0)
    device.submit(SHORT, 0.25)
    assert device.cancel(LONG.request_id, 0.5).revoke == "long"
    assert device.cancel(LONG.request_id, 0.5) == Decision()
    assert device.cancel(SHORT.request_id, 0.75) == Decision()
    assert device.finish(LONG.request_id, 1.0) == Decision()
    assert not device.holders


def test_a_cancelled_holder_that_yields_ends_there() -> None:
    device = allocator("fifo")
    device.submit(LONG, 0.0)
    device.submit(SHORT, 0.25)
    device.cancel(LONG.request_id, 0.5)
    assert granted(device.yield_at_boundary(LONG.request_id, blocks_done=1, now_s=1.0)) == ["short"]
    with pytest.raises(NotHolderError):
        device.finish(LONG.request_id, 1.0)


def test_a_lost_connection_frees_the_device_and_drops_what_its_replica_waited_for() -> None:
    device = allocator("fifo")
    device.submit(LONG, 0.0)
    device.submit(request("same", owner="long"), 0.0)
    device.submit(SHORT, 0.25)
    assert granted(device.forget_owner("long", 0.5)) == ["short"]
    assert not device.waiting
    assert device.forget_owner("nobody", 0.5) == Decision()


def test_a_yield_may_bring_new_block_times() -> None:
    device = allocator("srpt")
    device.submit(LONG, 0.0)
    device.submit(request("other", 1.0), 0.25)
    decision = device.yield_at_boundary(LONG.request_id, blocks_done=1, now_s=1.0, block_times_s=(1.0, 0.25, 0.25))
    assert granted(decision) == ["long"]


@pytest.mark.parametrize("preemption", ["always", "auto", "never"])
def test_preemption_says_when_the_holder_is_revoked(preemption: str) -> None:
    device = DeviceAllocator(policy=make_policy("srpt"), preemption=preemption, handover_s=0.0625)  # type: ignore[arg-type]
    device.submit(LONG, 0.0)
    slightly_shorter = device.submit(request("slightly", 1.75, arrival_s=0.25, isolated_s=4.0), 0.25)
    assert (slightly_shorter.revoke is not None) == (preemption == "always")
    device.cancel(request("slightly").request_id, 0.5)
    much_shorter = device.submit(SHORT, 0.5)
    assert (much_shorter.revoke is not None) == (preemption != "never")


def test_without_preemption_a_voluntary_yield_goes_back_to_the_holder() -> None:
    device = allocator("srpt", preemption="never")
    device.submit(LONG, 0.0)
    device.submit(SHORT, 0.25)
    assert granted(device.yield_at_boundary(LONG.request_id, blocks_done=1, now_s=1.0)) == ["long"]


def test_in_parallel_mode_everybody_runs_at_once_and_nobody_is_revoked() -> None:
    device = DeviceAllocator(policy=make_policy("fifo"), exclusive=False, preemption="never", max_waiting=0)
    assert granted(device.submit(LONG, 0.0)) == ["long"]
    assert granted(device.submit(SHORT, 0.25)) == ["short"]
    assert len(device.holders) == 2
    assert granted(device.yield_at_boundary(LONG.request_id, blocks_done=1, now_s=1.0)) == ["long"]
    assert device.cancel(SHORT.request_id, 1.0).revoke == "short"
    assert device.finish(SHORT.request_id, 1.0) == Decision()
    assert device.holders == (LONG,)


def test_the_queue_bound_counts_those_that_wait_and_a_free_device_needs_no_queue() -> None:
    device = DeviceAllocator(policy=make_policy("fifo"), max_waiting=0)
    device.submit(LONG, 0.0)
    with pytest.raises(QueueFullError, match="0 requests wait"):
        device.submit(SHORT, 0.25)
    assert device.num_waiting == 0


def test_the_queue_bound_of_a_model_leaves_room_for_other_models() -> None:
    device = DeviceAllocator(policy=make_policy("fifo"), max_waiting_per_model=1)
    device.submit(LONG, 0.0)
    device.submit(request("a1", model="a"), 0.0)
    with pytest.raises(ModelQueueFullError, match="model 'a'"):
        device.submit(request("a2", model="a"), 0.0)
    device.submit(request("b1", model="b"), 0.0)
    device.cancel(request("a1").request_id, 0.0)
    device.submit(request("a2", model="a"), 0.0)


class TestRecovery:
    """After a restart of the allocator."""

    def test_nothing_is_granted_before_resume(self) -> None:
        device = DeviceAllocator(policy=make_policy("srpt"), recovering=True)
        assert device.submit(LONG, 0.0) == Decision()
        assert device.announce(SHORT, blocks_done=0, is_holding=False, now_s=0.25) == Decision()
        assert device.on_timer(0.25) == Decision()
        assert granted(device.resume(0.5)) == ["short"]

    def test_an_announced_holder_goes_on_and_others_wait_for_its_boundary(self) -> None:
        device = DeviceAllocator(policy=make_policy("srpt"), recovering=True)
        device.announce(LONG, blocks_done=1, is_holding=True, now_s=0.0)
        device.submit(SHORT, 0.25)
        assert device.resume(0.5).revoke == "long"
        assert device.holder == LONG

    def test_a_second_holder_is_an_error_and_changes_nothing(self) -> None:
        device = DeviceAllocator(policy=make_policy("srpt"), recovering=True)
        device.announce(LONG, blocks_done=1, is_holding=True, now_s=0.0)
        before = device.snapshot(0.25)
        with pytest.raises(TwoHoldersError, match="'long' holds the device"):
            device.announce(SHORT, blocks_done=0, is_holding=True, now_s=0.25)
        assert device.snapshot(0.25) == before

    def test_a_holder_that_yields_while_recovering_waits_like_the_others(self) -> None:
        device = DeviceAllocator(policy=make_policy("srpt"), recovering=True)
        device.announce(LONG, blocks_done=0, is_holding=True, now_s=0.0)
        device.submit(SHORT, 0.25)
        assert device.yield_at_boundary(LONG.request_id, blocks_done=1, now_s=0.5) == Decision()
        assert granted(device.resume(0.5)) == ["short"]
        assert granted(device.finish(SHORT.request_id, 1.0)) == ["long"]

    def test_announcements_keep_the_arrival_order_whatever_their_own_order(self) -> None:
        device = DeviceAllocator(policy=make_policy("fifo"), recovering=True)
        device.announce(SHORT, blocks_done=0, is_holding=False, now_s=5.0)
        device.announce(LONG, blocks_done=1, is_holding=False, now_s=5.0)
        assert device.waiting == (LONG, SHORT)
        assert granted(device.resume(5.0)) == ["long"]

    def test_in_parallel_mode_all_that_waited_run_after_resume(self) -> None:
        device = DeviceAllocator(policy=make_policy("fifo"), exclusive=False, recovering=True)
        device.submit(LONG, 0.0)
        device.submit(SHORT, 0.25)
        assert granted(device.resume(0.5)) == ["long", "short"]
        assert device.num_waiting == 0


class TestTimer:
    """When the allocator asks to be called again."""

    def test_an_order_that_changes_with_time_is_asked_again_before_each_boundary(self) -> None:
        device = allocator("response_ratio")
        device.submit(LONG, 0.0)
        first_s = device.submit(request("other", 3.0, isolated_s=3.0), 0.0).look_again_s
        assert first_s is not None
        assert 0.0 < first_s < 1.0
        second_s = device.on_timer(first_s).look_again_s
        assert second_s is not None
        assert 1.0 < second_s < 2.0

    def test_the_timer_never_asks_for_the_moment_it_was_called_at_even_if_a_block_is_overdue(self) -> None:
        device = allocator("response_ratio")
        device.submit(LONG, 0.0)
        now_s = 0.0
        look_again_s = device.submit(request("other", 9.0, isolated_s=9.0), now_s).look_again_s
        for _ in range(20):
            assert look_again_s is not None
            assert look_again_s > now_s
            now_s = look_again_s
            look_again_s = device.on_timer(now_s).look_again_s

    def test_a_static_order_asks_only_for_the_next_promotion(self) -> None:
        device = allocator("srpt", starvation_bound_s=8.0)
        device.submit(SHORT, 0.25)
        device.submit(LONG, 0.25)
        device.finish(SHORT.request_id, 0.75)
        assert device.submit(request("huge", 9.0, arrival_s=1.0), 1.0).look_again_s == 9.0

    def test_nobody_waits_no_timer(self) -> None:
        assert allocator("response_ratio").submit(LONG, 0.0).look_again_s is None


class TestIllegalCalls:
    """Each raises and changes nothing."""

    def test_an_identity_is_used_once_at_a_time(self) -> None:
        device = allocator()
        device.submit(LONG, 0.0)
        with pytest.raises(DuplicateRequestError):
            device.submit(LONG, 0.0)
        with pytest.raises(DuplicateRequestError):
            device.announce(LONG, blocks_done=0, is_holding=False, now_s=0.0)

    def test_only_the_holder_finishes_and_yields(self) -> None:
        device = allocator()
        device.submit(LONG, 0.0)
        device.submit(SHORT, 0.25)
        before = device.snapshot(0.5)
        with pytest.raises(NotHolderError, match="'long' does"):
            device.finish(SHORT.request_id, 0.5)
        with pytest.raises(NotHolderError):
            device.yield_at_boundary(SHORT.request_id, blocks_done=0, now_s=0.5)
        assert device.snapshot(0.5) == before

    def test_only_known_requests_are_cancelled(self) -> None:
        with pytest.raises(UnknownRequestError):
            allocator().cancel(LONG.request_id, 0.0)

    @pytest.mark.parametrize("blocks_done", [0, 3, 4])
    def test_a_yield_reports_no_fewer_blocks_and_leaves_one(self, blocks_done: int) -> None:
        device = allocator()
        device.submit(LONG, 0.0)
        device.progress(LONG.request_id, 1, 1.0, 1.0)
        before = device.snapshot(1.0)
        with pytest.raises(ProgressError):
            device.yield_at_boundary(LONG.request_id, blocks_done=blocks_done, now_s=1.0)
        assert device.snapshot(1.0) == before

    def test_new_block_times_fit_the_blocks(self) -> None:
        device = allocator()
        device.submit(LONG, 0.0)
        with pytest.raises(ProgressError, match="2 block times for 3 blocks"):
            device.yield_at_boundary(LONG.request_id, blocks_done=1, now_s=1.0, block_times_s=(1.0, 1.0))
        with pytest.raises(InvalidRequestError):
            device.yield_at_boundary(LONG.request_id, blocks_done=1, now_s=1.0, block_times_s=(1.0, -1.0, 1.0))

    def test_progress_beyond_the_last_block_is_an_error(self) -> None:
        device = allocator()
        device.submit(LONG, 0.0)
        with pytest.raises(ProgressError):
            device.progress(LONG.request_id, 4, 1.0, 1.0)
        with pytest.raises(ProgressError):
            device.announce(SHORT, blocks_done=1, is_holding=False, now_s=0.0)


def test_the_snapshot_shows_who_holds_and_who_waits_in_arrival_order() -> None:
    device = allocator("srpt")
    device.submit(LONG, 0.0)
    device.submit(SHORT, 0.25)
    snapshot = device.snapshot(0.5)
    (holder,) = snapshot.holders
    (waiting,) = snapshot.waiting
    assert (holder.request_id, holder.held_s, holder.is_revoked, holder.num_blocks) == ("long", 0.5, True, 3)
    assert (waiting.request_id, waiting.age_s, waiting.held_s, waiting.time_to_deadline_s) == (
        "short",
        0.25,
        None,
        1.75,
    )
    assert snapshot.waiting_s == 0.5
