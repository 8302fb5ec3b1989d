"""The deployment that serves one split model, in the fused layout: all its blocks live in one process."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from uuid import uuid4

import msgspec
import numpy as np
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from deployments.runtime.allocator_actor import find_socket
from deployments.runtime.block_times import BlockTimes
from deployments.runtime.blocks import PROVIDERS, BlockChain
from deployments.runtime.device_thread import DeviceThread, Result
from deployments.runtime.errors import (
    BlockFailedError,
    DataRefusedError,
    DeadlineExceededError,
    PlanNotForDeviceError,
)
from deployments.runtime.inputs import check_inputs, sample_inputs
from deployments.runtime.settings import SWITCH_INTERVAL_S, DeviceSettings
from deployments.scheduling.request import Request, RequestId
from split_tool.plan import SplitPlan
from split_tool.processor import processor_name_and_features

logger = logging.getLogger(__name__)

NUM_WARM_UP_RUNS = 3

Outputs = dict[str, np.ndarray]


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One model as it is served.

    Attributes:
        model: Its name.
        folder: Folder of its split plan.
        device: The device and what its models share.
        alpha: A request's deadline is its arrival plus alpha times the isolated time, unless it has its own.
        deadline_s: Deadline in seconds after arrival for every request of this model; None: by alpha.
        priority: Level of requests that state none, 1 is the highest.
        timeout_s: Longest time a request may take before it is given up with an error; None: no limit.
    """

    model: str
    folder: str
    device: DeviceSettings
    alpha: float = 4.0
    deadline_s: float | None = None
    priority: int = 1
    timeout_s: float | None = None


class SplitModel:
    """Serves one model, block by block, in turns that the allocator of its device grants.

    A plain class; the application builder turns it into a Serve deployment.
    """

    def __init__(self, settings: ModelSettings) -> None:
        """Load the plan, check it, load the blocks, join the device's allocator and warm up under its leases.

        Raises:
            PlanNotFoundError, PlanInvalidError, PlanMismatchError: See ``SplitPlan``.
            PlanNotForDeviceError: If the plan was made for another provider or for other instruction sets.
            DeviceUnavailableError: If ONNX Runtime does not give the device.
            SettingsConflictError: If models of the device state other settings for it.
        """
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.settings = settings
        folder = Path(settings.folder)
        self.plan = SplitPlan.load(folder)
        self.plan.check_files(folder)
        is_split = settings.device.sharing.preemption != "never"
        if is_split:
            _check_plan_fits(self.plan, settings.device)
        isolated_s = self.plan.isolated_ms / 1e3
        planned_s = tuple(block.time_ms / 1e3 for block in self.plan.blocks) if is_split else (isolated_s,)
        self._block_times = BlockTimes(planned_s, isolated_s)
        self._device = DeviceThread(
            model=settings.model,
            chain=BlockChain(self.plan, folder, settings.device, is_split=is_split),
            block_times=self._block_times,
            settings=settings.device,
            find_socket=lambda: find_socket(settings.device),
        )
        self._input_specs = {spec.name: spec for spec in self.plan.inputs}
        self._warm_up()

    async def infer(
        self,
        inputs: Mapping[str, np.ndarray],
        *,
        priority: int | None = None,
        timeout_s: float | None = None,
        deadline_s: float | None = None,
    ) -> Outputs:
        """Run the model once.

        Args:
            inputs: Arrays by input name, with the dtypes and shapes of the plan's inputs.
            priority: Level, 1 is the highest; None or 0: the model's default.
            timeout_s: Seconds after which the request is given up; None: the model's default.
            deadline_s: Seconds after arrival by which the answer is wanted (it orders the queue, the request is still
                answered if late); None: the time-out if there is one, else by the model's settings.

        Returns:
            Arrays by output name.

        Raises:
            InputRefusedError: If an input is missing, unknown, or of another dtype or shape.
            DeadlineExceededError: If ``timeout_s`` passed first.
            QueueFullError, RefusedError: If the allocator does not take the request.
            DataRefusedError: If the values in the inputs are none that the model can take, so ONNX Runtime says.
            BlockFailedError: If ONNX Runtime raised otherwise.
            ReplicaClosedError: If the replica shut down meanwhile.
        """
        check_inputs(inputs, self._input_specs)
        timeout_s = self.settings.timeout_s if timeout_s is None else timeout_s
        request = self._make_request(priority, timeout_s if deadline_s is None else deadline_s)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outputs] = loop.create_future()

        def on_result(result: Result) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, answer, result)

        self._device.submit(request, inputs, on_result)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise DeadlineExceededError(
                f"the request took longer than its time-out of {timeout_s} s and was given up: send it again, with a "
                "longer time-out or when the device is less busy"
            ) from error
        except BlockFailedError as error:
            if isinstance(error.__cause__, InvalidArgument):
                raise DataRefusedError(str(error)) from error
            raise
        finally:
            if not answer.done() or answer.cancelled():
                self._device.cancel(request.request_id)

    def check_health(self) -> None:
        """Called by Serve; raises what makes it replace this replica (see ``DeviceThread.check_health``)."""
        self._device.check_health()

    def block_times_s(self) -> tuple[float, ...]:
        """Predicted block times right now, in seconds; they follow what is measured."""
        return self._block_times.times_s

    @property
    def device_s(self) -> float:
        """How long this replica's blocks have run so far, warm-up included, in seconds."""
        return self._block_times.total_s

    def __del__(self) -> None:
        if hasattr(self, "_device"):
            self._device.close()

    def _make_request(self, priority: int | None, deadline_s: float | None) -> Request:
        now_s = time.monotonic()
        isolated_s = self._block_times.isolated_s
        own_s = deadline_s if deadline_s is not None else self.settings.deadline_s
        return Request(
            request_id=RequestId(uuid4().hex),
            model=self.settings.model,
            owner=self._device.owner,
            arrival_s=now_s,
            isolated_s=isolated_s,
            block_times_s=self._block_times.times_s,
            deadline_s=now_s + (own_s if own_s is not None else self.settings.alpha * isolated_s),
            priority=priority or self.settings.priority,
        )

    def _warm_up(self) -> None:
        """Run a few requests in the ordinary way, so that caches are warm and the times are this machine's.

        Raises:
            BlockFailedError: If the model does not run.
        """
        inputs = sample_inputs(self.plan.inputs)
        if inputs is None:
            logger.warning("%r takes inputs of unknown shape: its first request warms it up", self.settings.model)
            return
        for _ in range(NUM_WARM_UP_RUNS):
            answer: Future[Outputs] = Future()
            self._device.submit(self._make_request(None, None), inputs, partial(_settle, answer))
            answer.result()


def _check_plan_fits(plan: SplitPlan, device: DeviceSettings) -> None:
    wanted = PROVIDERS[device.kind]
    again = "split the model again on this machine"
    if plan.measured_on.provider != wanted:
        raise PlanNotForDeviceError(
            f"the plan of {plan.model!r} was made for {plan.measured_on.provider}, device {device.device} is {wanted}: "
            f"{again}"
        )
    _, here = processor_name_and_features()
    if plan.graph == "optimised" and device.kind == "cpu" and plan.measured_on.processor_features != here:
        raise PlanNotForDeviceError(
            f"the blocks of {plan.model!r} were laid out for a processor with "
            f"{', '.join(plan.measured_on.processor_features)}; this one has {', '.join(here)}: {again}"
        )


def _settle(answer: Future[Outputs] | asyncio.Future[Outputs], result: Result) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)
