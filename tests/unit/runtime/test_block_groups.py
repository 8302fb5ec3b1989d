"""Groups of blocks: what crosses between them and what cannot, what each allocator sees, how a request goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from deployments.runtime.block_groups import BlockGroup, check_groups, group_plan, stay
from deployments.runtime.errors import LayoutRefusedError
from deployments.runtime.group_calls import Clock
from deployments.runtime.messages import Cancel, Finish, Grant, Submit
from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.request import RequestId
from split_tool.plan import Block, Cut, SplitPlan, TensorSpec
from tests.raw_replica import make_request
from tests.unit.protocol.test_metadata import PLAN
from tests.unit.runtime.lease_world import LeaseWorld

HERE, THERE = DeviceSettings(mode="fifo"), DeviceSettings(mode="fifo", index=1)


def spec(name: str, kind: Literal["tensor", "sequence", "optional"] = "tensor") -> TensorSpec:
    return TensorSpec(name=name, dtype="float32", shape=(1,), kind=kind)


def plan(
    *blocks: tuple[str, str], inputs: str, outputs: str, kind: Literal["tensor", "sequence"] = "tensor"
) -> SplitPlan:
    """A plan whose blocks read and give values of one letter each; cuts name all that any block gives."""
    made = tuple(
        Block(
            file=f"{index}.onnx",
            sha256="",
            inputs=tuple(reads),
            outputs=tuple(gives),
            num_nodes=1,
            time_ms=1.0,
            file_bytes=1,
        )
        for index, (reads, gives) in enumerate(blocks)
    )
    crossing = tuple(spec(name, kind) for block in made for name in block.outputs)
    return msgspec.structs.replace(
        PLAN,
        inputs=tuple(map(spec, inputs)),
        outputs=tuple(map(spec, outputs)),
        blocks=made,
        cuts=tuple(Cut(position=index, tensors=crossing, crossing_bytes=None) for index in range(1, len(made))),
    )


def group(first: int, end: int, device: DeviceSettings = HERE) -> BlockGroup:
    return BlockGroup(first_block=first, end_block=end, device=device)


def names(specs: tuple[TensorSpec, ...]) -> str:
    return "".join(each.name for each in specs)


def test_what_later_blocks_or_the_caller_want_crosses_and_nothing_else() -> None:
    # x and y are inputs, y is wanted late; a skips a block; o is an output that is there early; u is used up at once
    model = plan(("x", "abou"), ("b", "c"), ("acy", "d"), ("d", "p"), inputs="xy", outputs="op")
    parts = [group_plan(model, group(*each)) for each in ((0, 1), (1, 2), (2, 4))]
    assert [(names(part.inputs), names(part.outputs)) for part in parts] == [
        ("xy", "yabo"),
        ("yabo", "yaoc"),
        ("yaoc", "op"),
    ]
    assert [[block.file for block in part.blocks] for part in parts] == [["0.onnx"], ["1.onnx"], ["2.onnx", "3.onnx"]]
    assert [len(part.cuts) for part in parts] == [0, 0, 1]


def test_an_input_that_is_an_output_passes_through_all_groups() -> None:
    model = plan(("x", "a"), ("a", "p"), inputs="x", outputs="xp")
    assert names(group_plan(model, group(0, 1)).outputs) == "xa"
    assert names(group_plan(model, group(1, 2)).inputs) == "xa"


def test_a_sequence_may_not_cross_between_groups_but_within_one() -> None:
    model = plan(("x", "a"), ("a", "b"), ("b", "p"), inputs="x", outputs="p", kind="sequence")
    check_groups(model, [group(0, 3)])
    with pytest.raises(LayoutRefusedError, match="'a', which is there between blocks 0 and 1, is of kind sequence"):
        check_groups(model, [group(0, 1), group(1, 3)])


def test_what_is_compiled_for_opencl_is_not_chained() -> None:
    model = plan(("x", "a"), ("a", "p"), inputs="x", outputs="p")
    with pytest.raises(LayoutRefusedError, match="layout: fused"):
        check_groups(model, [group(0, 1), group(1, 2, DeviceSettings(kind="opencl"))])


@pytest.mark.parametrize("ends", [[(0, 1)], [(0, 1), (1, 4)], [(1, 3)], [(0, 2), (1, 3)]])
def test_groups_must_have_every_block_once(ends: list[tuple[int, int]]) -> None:
    model = plan(("x", "a"), ("a", "b"), ("b", "p"), inputs="x", outputs="p")
    with pytest.raises(LayoutRefusedError, match="its plan has 3 blocks"):
        check_groups(model, [group(*each) for each in ends])


def test_work_for_this_device_is_what_remains_and_work_elsewhere_comes_off_the_deadline() -> None:
    whole = make_request("r", owner="m", arrival_s=0.0, block_times_s=(1.0, 2.0, 4.0, 8.0))
    groups = [group(0, 1), group(1, 2, THERE), group(2, 3), group(3, 4, THERE)]
    stays = [stay(whole, groups, index) for index in range(4)]
    assert [each.block_times_s for each in stays] == [(1, 0, 4, 0), (0, 2, 0, 8), (1, 0, 4, 0), (0, 2, 0, 8)]
    assert [each.elsewhere_s for each in stays] == [10.0, 4.0, 8.0, 0.0]
    assert [(each.first_block, each.end_block) for each in stays] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert all(
        replace(each, block_times_s=whole.block_times_s)
        == replace(whole, first_block=each.first_block, end_block=each.end_block, elsewhere_s=each.elsewhere_s)
        for each in stays
    )


def test_times_are_read_on_the_clock_of_the_node_that_they_come_to() -> None:
    whole = make_request("r", owner="m", arrival_s=100.0)
    there = Clock("b", 1_600.0)
    assert Clock("b", 1_000.0).read_on(there, whole) is whole
    moved = Clock("a", 1_000.0).read_on(there, whole)
    assert (moved.arrival_s, moved.deadline_s) == (-500.0, whole.deadline_s - 600.0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LeaseWorld]:
    world = LeaseWorld(tmp_path / "device", HERE)
    yield world
    world.close()


def test_a_request_may_go_on_before_the_allocator_has_read_that_its_first_stay_is_over(world: LeaseWorld) -> None:
    later = world.raw_replica("later")  # what connected first is looked at first
    earlier = world.raw_replica("earlier")
    whole = make_request("r", owner="earlier", block_times_s=(1.0, 1.0))
    groups = [group(0, 1), group(1, 2)]
    bystander = world.raw_replica("bystander")
    earlier.send(Submit(request=stay(whole, groups, 0)))
    grant = earlier.receive()
    assert isinstance(grant, Grant)
    with world.server._lock:
        bystander.send(Cancel(request_id=RequestId("nobody's")))  # wakes it: then it waits for the lock
        earlier.send(Finish(request_id=whole.request_id, lease=grant.lease))
        later.send(Submit(request=replace(stay(whole, groups, 1), owner="later")))
    again = later.receive()
    assert isinstance(again, Grant)
    assert again.lease > grant.lease
    for replica in (earlier, later, bystander):
        replica.close()


def test_blocks_of_a_later_group_run_under_their_own_numbers(world: LeaseWorld) -> None:
    replica = world.replica("m", 2, first_block=3)
    whole = make_request("r", owner=replica.thread.owner, block_times_s=(1.0,) * 5)
    replica.chain.allow(2)
    times_s: list[float] = []
    answers: list[object] = []
    replica.thread.submit(stay(whole, [group(0, 3), group(3, 5)], 1), {}, answers.append, on_block=times_s.append)
    world.wait_until(lambda: bool(world.slices()))
    (turn,) = world.slices()
    assert (turn.first_block, len(turn.block_ends_s), turn.outcome) == (3, 2, "finished")
    assert len(times_s) == 2
    assert isinstance(answers[0], dict)
    assert answers[0]["ran"].tolist() == [0, 1]
