"""A few random sequences of all events; ``tests/integration/simulation`` draws many."""

from __future__ import annotations

from hypothesis import settings

from .machine import AllocatorMachine

TestAllocatorMachine = AllocatorMachine.TestCase
TestAllocatorMachine.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)
