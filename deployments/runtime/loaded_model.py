"""Blocks of a model that are loaded, with the thread that runs them in turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from deployments.runtime.block_times import BlockTimes
from deployments.runtime.device_thread import DeviceThread
from deployments.runtime.errors import BlockFailedError
from deployments.runtime.jobs import Result
from deployments.scheduling.request import Request

logger = logging.getLogger(__name__)

NUM_WARM_UP_RUNS = 3


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """What serves until something else is loaded.

    Attributes:
        folder: Of the plan.
        is_split: Its blocks are loaded, and not the whole model as one.
        thread: Runs them.
        block_times: What they take.
    """

    folder: Path
    is_split: bool
    thread: DeviceThread
    block_times: BlockTimes

    def warm_up(
        self, make_request: Callable[[], Request], inputs: Mapping[str, np.ndarray] | None, *, must_run: bool
    ) -> None:
        """Run a few requests in the ordinary way, so that caches are warm and the times are this machine's.

        Args:
            make_request: A request for all that is loaded.
            inputs: Its inputs; None: they cannot be made up, and nothing is run.
            must_run: Whether failing on these inputs is an error; only known for a model's own inputs.

        Raises:
            BlockFailedError: If they do not run and must.
        """
        if inputs is None:
            logger.warning("inputs of unknown shape in %s: the first request warms it up", self.folder)
            return
        for _ in range(NUM_WARM_UP_RUNS):
            answer: Future[dict[str, np.ndarray]] = Future()
            self.thread.submit(make_request(), inputs, partial(settle, answer))
            try:
                answer.result()
            except BlockFailedError:
                if must_run:
                    raise
                # zeros are inputs that a model can take, but need not be what can cross a cut
                logger.warning("blocks in %s do not run on zeros: their first request warms them up", self.folder)
                return


def settle(answer: Future[dict[str, np.ndarray]] | asyncio.Future[dict[str, np.ndarray]], result: Result) -> None:
    """Give the answer to whoever waits for it, unless it is given up."""
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)
