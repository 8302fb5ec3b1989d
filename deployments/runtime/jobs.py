"""Requests of a replica that are not answered yet, and how their blocks run in a turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

from deployments.runtime.backends.interface import LoadedBlocks
from deployments.runtime.block_times import BlockTimes
from deployments.runtime.copies import Copies
from deployments.runtime.errors import BlockFailedError, DataRefusedError, ReplicaClosedError
from deployments.runtime.lease_page import LeasePage
from deployments.runtime.messages import Finish, Outcome, Slice, Yield
from deployments.scheduling.request import Request

Result = dict[str, np.ndarray] | Exception


class Job:
    """A request of this replica that is not answered yet."""

    __slots__ = ("blocks_done", "inputs", "is_cancelled", "is_in_turn", "on_block", "on_result", "request", "values")

    def __init__(
        self,
        request: Request,
        inputs: Mapping[str, np.ndarray],
        on_result: Callable[[Result], None],
        on_block: Callable[[float], None] | None,
    ) -> None:
        self.request = request
        self.inputs: Mapping[str, np.ndarray] | None = inputs
        self.values: Any = None  # the backend's
        self.on_result = on_result
        self.on_block = on_block
        self.blocks_done = request.first_block
        self.is_in_turn = False
        self.is_cancelled = False


class TurnEnd(msgspec.Struct):
    """A turn that is over, with what is still to be told of it."""

    job: Job
    lease: int
    first_block: int
    start_ns: int
    block_ends_s: list[float]
    end_s: float
    outcome: Outcome
    result: Result | None
    passed_lease: int | None

    def news(self) -> Yield | Finish:
        """What the allocator is told; the job waits again only if the turn was yielded and nobody has cancelled it."""
        request = self.job.request
        turn = Slice(
            request_id=request.request_id,
            model=request.model,
            lease=self.lease,
            first_block=self.first_block,
            start_s=self.start_ns / 1e9,
            block_ends_s=tuple(self.block_ends_s),
            end_s=self.end_s,
            outcome=self.outcome,
        )
        if self.outcome == "yielded" and not self.job.is_cancelled:
            return Yield(
                request_id=request.request_id,
                lease=self.lease,
                blocks_done=self.job.blocks_done,
                passed_lease=self.passed_lease,
                turn=turn,
            )
        return Finish(request_id=request.request_id, lease=self.lease, passed_lease=self.passed_lease, turn=turn)


class BlockRunner:
    """Runs the blocks of one model, on the one thread that may.

    Attributes:
        copies: What requests have sent to the device and got back.
    """

    def __init__(
        self, model: str, chain: LoadedBlocks[Any], block_times: BlockTimes, is_closing: Callable[[], bool]
    ) -> None:
        """Where ``is_closing`` says so, a request is given up at the next boundary."""
        self._model = model
        self._chain = chain
        self._block_times = block_times
        self._is_closing = is_closing
        self.copies = Copies()

    def run(
        self, job: Job, page: LeasePage, lease: int, start_ns: int, block_ends_s: list[float]
    ) -> tuple[Outcome, Result | None]:
        """Run block after block until the last, or until the device is wanted back."""
        chain, began_ns, request = self._chain, start_ns, job.request
        try:
            if job.values is None:
                self._start(job)
            while True:
                chain.run_block(job.blocks_done - request.first_block, job.values)
                now_ns = time.monotonic_ns()
                block_ends_s.append(now_ns / 1e9)
                block_s = (now_ns - began_ns) / 1e9
                self._block_times.observe(job.blocks_done, block_s)
                if job.on_block is not None:
                    job.on_block(block_s)
                job.blocks_done += 1
                began_ns = now_ns
                if job.is_cancelled:
                    return "cancelled", None
                if job.blocks_done == request.stops_at:
                    return "finished", self._outputs(job)
                if self._is_closing():
                    return "cancelled", ReplicaClosedError(
                        f"the replica of {self._model!r} shut down while the request ran: send it again"
                    )
                if page.is_revoked(lease):
                    return "yielded", None
                page.begin(lease, job.blocks_done, now_ns)
        except Exception as error:
            kind = DataRefusedError if isinstance(error, DataRefusedError) else BlockFailedError
            failure = kind(f"block {job.blocks_done} of {self._model!r} failed: {error}")
            failure.__cause__ = error
            return "failed", failure

    def _start(self, job: Job) -> None:
        assert job.inputs is not None
        begin_ns = time.monotonic_ns()
        job.values = self._chain.start(job.inputs)
        self.copies.add_inputs(job.inputs.values(), time.monotonic_ns() - begin_ns)
        job.inputs = None

    def _outputs(self, job: Job) -> dict[str, np.ndarray]:
        begin_ns = time.monotonic_ns()
        values, job.values = job.values, None
        outputs = self._chain.finish(values)
        self.copies.add_outputs(outputs.values(), time.monotonic_ns() - begin_ns)
        return outputs

    def close(self) -> None:
        """Unload the blocks."""
        self._chain.close()
