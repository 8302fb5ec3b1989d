"""What each policy decides, by examples; priorities, promotion, admission."""

from __future__ import annotations

import pytest

from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.errors import PolicyOptionError, RefusedError, UnknownPolicyError
from deployments.scheduling.modes import MODES, find_mode
from deployments.scheduling.policies.table import POLICIES, make_policy
from deployments.scheduling.request import Request

from .builders import allocator, request


def order_of(device: DeviceAllocator, *requests: Request, blocker_s: float = 1.0) -> list[str]:
    """Submit all while something else runs, then run them to their ends one block at a time; the order of the ends."""
    device.submit(request("blocker", blocker_s), 0.0)
    for each in requests:
        device.submit(each, each.arrival_s)
    now_s = blocker_s
    decision = device.finish(request("blocker").request_id, now_s)
    ends = []
    while decision.grants:
        (holder,) = decision.grants
        done = device.snapshot(now_s).holders[0].blocks_done
        now_s += holder.block_times_s[done]
        if done + 1 == len(holder.block_times_s):
            ends.append(str(holder.request_id))
            decision = device.finish(holder.request_id, now_s)
        else:
            decision = device.yield_at_boundary(holder.request_id, blocks_done=done + 1, now_s=now_s)
    return ends


LATE_LONG = request("long", 2.0, 2.0, deadline_s=6.0)
EARLY_SHORT = request("short", 1.0, arrival_s=0.25, deadline_s=9.0)
MIDDLE = request("middle", 1.0, 1.0, arrival_s=0.5, deadline_s=7.0)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fifo", ["long", "short", "middle"]),
        ("sjf", ["short", "middle", "long"]),
        ("srpt", ["short", "middle", "long"]),
        ("edf", ["long", "middle", "short"]),
        ("slo", ["long", "middle", "short"]),
    ],
)
def test_three_requests_end_in_the_order_of_the_policy(policy: str, expected: list[str]) -> None:
    assert order_of(allocator(policy), LATE_LONG, EARLY_SHORT, MIDDLE) == expected


def test_sjf_lets_the_holder_run_to_its_end_and_srpt_does_not() -> None:
    for policy, is_revoked in (("sjf", False), ("srpt", True)):
        device = allocator(policy)
        device.submit(LATE_LONG, 0.0)
        assert (device.submit(EARLY_SHORT, 0.25).revoke is not None) == is_revoked


class TestResponseRatio:
    """The repaired greedy of the ancestor."""

    def test_a_short_newcomer_passes_a_long_request_that_waits(self) -> None:
        long = request("long", 8.0)
        short = request("short", 1.0, arrival_s=0.5)
        assert order_of(allocator("response_ratio"), long, short) == ["short", "long"]

    def test_a_short_newcomer_does_not_pass_a_request_that_would_become_the_worse_of_the_two(self) -> None:
        waited_long = request("waited", 2.0, arrival_s=0.0, isolated_s=2.0)
        newcomer = request("newcomer", 1.75, arrival_s=39.0, isolated_s=1.75)
        assert order_of(allocator("response_ratio"), waited_long, newcomer, blocker_s=40.0) == ["waited", "newcomer"]

    def test_requests_of_one_model_keep_their_order(self) -> None:
        first = request("first", 8.0, model="m")
        second = request("second", 1.0, arrival_s=0.5, model="m")
        assert order_of(allocator("response_ratio"), first, second) == ["first", "second"]


class TestSlo:
    """Moore-Hodgson, and what happens to those set aside."""

    def test_the_longest_is_set_aside_so_that_two_others_are_on_time(self) -> None:
        long = request("long", 3.0, deadline_s=4.5, isolated_s=8.0)
        one = request("one", 1.0, deadline_s=3.0)
        two = request("two", 1.0, deadline_s=3.5)
        assert order_of(allocator("slo"), long, one, two) == ["one", "two", "long"]

    def test_a_late_request_runs_early_where_all_others_can_wait_for_it(self) -> None:
        hopeless = request("late", 1.0, deadline_s=1.5)
        patient = request("patient", 1.0, deadline_s=3.5)
        assert order_of(allocator("slo"), hopeless, patient) == ["late", "patient"]
        assert order_of(allocator("slo", late_reserve=1.0), hopeless, patient) == ["patient", "late"]
        assert order_of(allocator("slo", late_reserve=None), hopeless, patient) == ["patient", "late"]

    def test_with_admission_a_request_that_would_be_late_is_refused_with_the_wait(self) -> None:
        for admission in ("newcomer", "anyone_waiting"):
            device = allocator("slo", admission=admission)
            device.submit(request("holder", 4.0), 0.0)
            with pytest.raises(RefusedError) as caught:
                device.submit(request("late", 1.0, deadline_s=4.5), 0.5)
            assert caught.value.predicted_wait_s == 3.5
            assert caught.value.allowed_wait_s == 3.0
            assert device.num_waiting == 0

    def test_a_newcomer_that_makes_another_late_is_refused_or_takes_its_place(self) -> None:
        long = request("long", 3.0, deadline_s=7.5)
        short = request("short", 1.0, arrival_s=0.5, deadline_s=7.25)
        device = allocator("slo", admission="newcomer")
        device.submit(request("holder", 4.0), 0.0)
        device.submit(long, 0.0)
        with pytest.raises(RefusedError):
            device.submit(short, 0.5)
        device = allocator("slo", admission="anyone_waiting")
        device.submit(request("holder", 4.0), 0.0)
        device.submit(long, 0.0)
        (refusal,) = device.submit(short, 0.5).refused
        assert refusal.request == long
        assert refusal.error.request_id == "long"
        assert device.waiting == (short,)

    def test_admission_counts_the_work_of_higher_levels(self) -> None:
        device = allocator("slo", admission="newcomer")
        device.submit(request("holder", 1.0), 0.0)
        device.submit(request("high", 3.0, deadline_s=9.0), 0.0)
        with pytest.raises(RefusedError):
            device.submit(request("low", 1.0, deadline_s=4.5, priority=2), 0.0)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "fifo"])
class TestLevels:
    """Priorities and promotion, the same for every policy but fifo."""

    def test_a_higher_level_comes_first_and_revokes(self, policy: str) -> None:
        device = allocator(policy, starvation_bound_s=1.0)
        device.submit(request("low", 1.0, 1.0, priority=2), 0.0)
        assert device.submit(request("high", 9.0, 9.0, arrival_s=4.0), 4.0).revoke == "low"

    def test_a_lower_level_does_not_disturb(self, policy: str) -> None:
        device = allocator(policy, starvation_bound_s=1.0)
        device.submit(request("high", 9.0, 9.0), 0.0)
        assert device.submit(request("low", 1.0, priority=2), 4.0).revoke is None

    def test_an_overdue_request_comes_first_within_its_level(self, policy: str) -> None:
        device = allocator(policy, starvation_bound_s=8.0, promoted_share=1.0)
        old = request("old", 7.0, deadline_s=99.0)
        young = request("young", 1.0, arrival_s=8.5, deadline_s=20.0)
        assert order_of(device, old, young, blocker_s=9.0) == ["old", "young"]

    def test_an_overdue_request_of_a_lower_level_comes_first_only_if_the_options_say_so(self, policy: str) -> None:
        old = request("old", 7.0, deadline_s=99.0, priority=2)
        young = request("young", 1.0, arrival_s=8.5, deadline_s=20.0)
        for across, expected in ((False, ["young", "old"]), (True, ["old", "young"])):
            device = allocator(policy, starvation_bound_s=8.0, promoted_share=1.0, promote_across_priorities=across)
            assert order_of(device, old, young, blocker_s=9.0) == expected


@pytest.mark.parametrize("policy", ["srpt", "edf", "response_ratio", "slo"])
def test_promotion_takes_no_more_than_its_share(policy: str) -> None:
    device = allocator(policy, starvation_bound_s=8.0, promoted_share=0.25)
    old = [request(f"old{i}", *[1.0] * 4, arrival_s=i / 8, model="old", deadline_s=200.0) for i in range(4)]
    young = [
        request(f"young{i}", 1.0, 1.0, arrival_s=8.75, model=f"y{i}", isolated_s=1.0, deadline_s=100.0)
        for i in range(4)
    ]
    ends = order_of(device, *old, *young, blocker_s=9.0)
    assert ends.index("old0") < ends.index("old3")
    assert "young0" in ends[:2]


def test_the_modes_name_policies_that_exist() -> None:
    for mode in MODES.values():
        make_policy(mode.policy)
    assert set(MODES) == {"slo", "dlir", "oyst", "bnst", "fifo", "parallel"}
    with pytest.raises(UnknownPolicyError, match="unknown mode 'fast': allowed are slo, dlir"):
        find_mode("fast")


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        ("fifo", {"starvation_bound_s": 1.0}, "allowed are no options"),
        ("slo", {"alpha": 4}, "allowed are the options .*late_reserve"),
        ("slo", {"admission": "on"}, "allowed is off, newcomer, anyone_waiting"),
        ("slo", {"late_reserve": -1}, "at least 0"),
        ("srpt", {"promoted_share": 0}, "above 0 and at most 1"),
        ("srpt", {"starvation_bound_s": "10"}, "seconds above 0"),
        ("srpt", {"promote_across_priorities": 1}, "true or false"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_allowed(policy: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(PolicyOptionError, match=message):
        make_policy(policy, options)


def test_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownPolicyError, match="allowed are fifo, sjf, srpt, edf, response_ratio, slo"):
        make_policy("lifo")
