"""Random sequences of all events; ``tests/integration/simulation`` draws many more."""

from __future__ import annotations

from .machine import AllocatorMachine

TestAllocatorMachine = AllocatorMachine.TestCase
