"""What a backend does for a device: tell whether a plan fits and what memory it takes, load blocks, run them.

A backend is a module with the three functions of ``Backend``; ``table.py`` names it for the kinds of device it serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from deployments.runtime.settings import DeviceSettings
from split_tool.plan import SplitPlan

Values = TypeVar("Values")
"""The values of one request that are alive between two blocks, on the device; the backend alone looks into them."""


class LoadedBlocks(Protocol[Values]):
    """The blocks of one model on one device.

    Used by one thread at a time, for any number of requests: between two blocks of one, blocks of others may run.
    ``start``, then ``run_block`` for each block in order, then ``finish``; a request that is given up in between is
    just dropped.
    """

    @property
    def num_blocks(self) -> int:
        """At least 1."""

    def start(self, inputs: Mapping[str, np.ndarray], /) -> Values:
        """The request's inputs on the device, as the values alive before block 0."""

    def run_block(self, block: int, values: Values, /) -> None:
        """Run one block, and return when the device has done it: the caller takes the time.

        Raises:
            DataRefusedError: If the request's values are to blame.
            Exception: Whatever else the runtime raises.
        """

    def finish(self, values: Values, /) -> dict[str, np.ndarray]:
        """The model's outputs by name, in host memory that nobody writes to any more; ``values`` are used up."""

    def close(self) -> None:
        """Give the device's memory back; nothing is called afterwards."""


class Backend(Protocol):
    """A module that serves some kinds of device.

    In all three functions ``plan`` is the model's split plan, ``folder`` where its files lie, and ``is_split`` False
    asks for the user's whole model as the only block.
    """

    def check_plan(self, plan: SplitPlan, folder: Path, device: DeviceSettings, /) -> None:
        """Return if the blocks of the plan can run on the device; loads nothing.

        Raises:
            PlanNotForDeviceError: If they were made for another one.
        """

    def memory_bytes(
        self, plan: SplitPlan, folder: Path, device: DeviceSettings, /, *, is_split: bool
    ) -> tuple[int, ...]:
        """Device memory that each block will take, in bytes; loads nothing."""

    def load(self, plan: SplitPlan, folder: Path, device: DeviceSettings, /, *, is_split: bool) -> LoadedBlocks[Any]:
        """Load the blocks.

        Raises:
            DeviceUnavailableError: If the device is not there.
        """
