"""Many random sequences of all events."""

from __future__ import annotations

from hypothesis import settings

from tests.unit.scheduling.machine import AllocatorMachine

TestAllocatorMachineAtLength = AllocatorMachine.TestCase
TestAllocatorMachineAtLength.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
