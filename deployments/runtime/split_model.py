"""The deployment that serves one split model: its process has all blocks, or (chained layout) a group of them."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from ray.exceptions import RayError

from deployments.runtime.allocator_actor import explanation, find_socket
from deployments.runtime.backends.table import backend_of
from deployments.runtime.block_groups import check_groups, group_plan, stay
from deployments.runtime.block_times import BlockTimes
from deployments.runtime.copies import Copies
from deployments.runtime.device_thread import DeviceThread
from deployments.runtime.errors import DeadlineExceededError
from deployments.runtime.group_calls import LaterGroups, explanation_of_stays
from deployments.runtime.inputs import check_inputs, sample_inputs
from deployments.runtime.jobs import Result
from deployments.runtime.loaded_model import LoadedModel, settle
from deployments.runtime.model_settings import ModelSettings
from deployments.runtime.neighbour_link import Methods
from deployments.runtime.neighbours import Neighbours
from deployments.runtime.settings import SWITCH_INTERVAL_S, DeviceSettings
from deployments.scheduling.errors import UnknownRequestError
from deployments.scheduling.explanation import Explanation
from deployments.scheduling.request import Request, RequestId
from split_tool.plan import SplitPlan

logger = logging.getLogger(__name__)

_DRAIN_POLL_S = 0.02

Outputs = dict[str, np.ndarray]
Wishes = tuple[int | None, float | None, float | None]
"""Priority, time-out and deadline of one request, see ``SplitModel.infer``."""
Answer = tuple[Outputs, Explanation | None]


class SplitModel:
    """Serves one model, block by block, in turns that the allocator of its device grants.

    A plain class; the application builder turns it into a Serve deployment.

    What is loaded can change while it serves: because the device's mode came to split or not to split, or another plan
    is there. The new blocks are loaded beside the old ones; requests go to them from then on, those that were taken
    before end on the old ones.
    """

    def __init__(self, settings: ModelSettings, *, group: int = 0, later: LaterGroups | None = None) -> None:
        """Load the plan, check it, join the device's allocator, load the blocks and warm up under its leases.

        Args:
            settings: The model.
            group: Which of its groups to load, if it has any.
            later: Runs what comes after this group's blocks.

        Raises:
            LayoutRefusedError: If the model cannot be cut into these groups.
            PlanNotFoundError, PlanInvalidError, PlanMismatchError: See ``SplitPlan``.
            PlanNotForDeviceError: If the plan was made for another provider or for other instruction sets.
            DeviceUnavailableError: If ONNX Runtime does not give the device.
            NodesElsewhereError: If it would run nodes elsewhere.
            MemoryBudgetError: If the model does not fit into the device's memory.
            SettingsConflictError: If models of the device state other settings for it.
        """
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.settings = settings
        self._groups, self._group, self._later = settings.groups, group, later
        self.in_force = settings.device
        self._stated = settings.device
        self._claim: DeviceSettings | None = None
        self._neighbours: Neighbours | None = None
        self._retired_s = 0.0
        self._retired_copies = Copies()
        self._reload_lock = threading.Lock()  # one reload at a time
        self._submit_lock = threading.Lock()  # nobody talks to what has been replaced
        self._current: LoadedModel | None = None
        self._folder = Path(settings.folder)
        self.plan = SplitPlan.load(self._folder)
        if self._groups:
            check_groups(self.plan, self._groups)
        self._input_specs = {spec.name: spec for spec in self._own_part(self.plan).inputs}
        self._current = self._load()
        self._reload_if_needed()  # another mode may be in force than was stated

    @property
    def _loaded(self) -> LoadedModel:
        assert self._current is not None
        return self._current

    def _load(self) -> LoadedModel:
        """Load what the mode in force needs and run it a few times."""
        folder, is_split = self._folder, self._wants_blocks
        plan = SplitPlan.load(folder)
        own = self._own_part(plan)
        own.check_files(folder)
        backend = backend_of(self._stated)
        if is_split:
            backend.check_plan(plan, folder, self._stated)
        isolated_s = plan.isolated_ms / 1e3
        planned_s = tuple(block.time_ms / 1e3 for block in plan.blocks) if is_split else (isolated_s,)
        block_times = BlockTimes(planned_s, isolated_s)
        thread = DeviceThread(
            model=self.settings.model,
            load=lambda: backend.load(own, folder, self._stated, is_split=is_split),
            memory_bytes=sum(backend.memory_bytes(own, folder, self._stated, is_split=is_split)),
            block_times=block_times,
            settings=self._stated,
            find_socket=lambda: find_socket(self._stated),
            claim=self._claim,
            on_settings=self._on_settings,
        )
        loaded = LoadedModel(folder, is_split, thread, block_times)
        try:
            loaded.warm_up(
                lambda: self._own_stay(self._make_request(loaded, None, None)),
                sample_inputs(self._own_part(self.plan).inputs),
                must_run=self._group == 0,
            )
        except Exception:
            thread.close()
            raise
        return loaded

    @property
    def _wants_blocks(self) -> bool:
        return bool(self._groups) or self.in_force.sharing.preemption != "never"

    def _own_part(self, plan: SplitPlan) -> SplitPlan:
        return group_plan(plan, self._groups[self._group]) if self._groups else plan

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
            DataRefusedError: If the values in the inputs are none that the model can take.
            BlockFailedError: If a block raised otherwise.
            ReplicaClosedError: If the replica shut down meanwhile.
        """
        return (await self._infer_anywhere(inputs, (priority, timeout_s, deadline_s), is_explained=False))[0]

    async def infer_explained(
        self,
        inputs: Mapping[str, np.ndarray],
        *,
        priority: int | None = None,
        timeout_s: float | None = None,
        deadline_s: float | None = None,
    ) -> Answer:
        """The same, with where the time went; that is None where the allocator no longer knows. One actor call more."""
        return await self._infer_anywhere(inputs, (priority, timeout_s, deadline_s), is_explained=True)

    async def meet(self, neighbours: Neighbours, methods: Methods | None = None) -> None:
        """Share requests with the model's other replicas; they may call ``infer_here``, and ``methods`` as well."""
        await neighbours.meet({"infer_here": self.infer_here} | dict(methods or {}))
        self._neighbours = neighbours

    async def _infer_anywhere(self, inputs: Mapping[str, np.ndarray], wishes: Wishes, *, is_explained: bool) -> Answer:
        """Run the model on the device where the request waits least."""
        if self._neighbours is not None:
            priority, timeout_s, deadline_s = wishes
            wanted_s = self._wanted_s(timeout_s, deadline_s)
            request = partial(self._make_request, self._loaded, priority, wanted_s)
            answer = await self._neighbours.try_elsewhere(request, "infer_here", inputs, wishes, is_explained)
            if answer is not None:
                return cast(Answer, answer)
        return await self.infer_here(inputs, wishes, is_explained)

    async def infer_here(self, inputs: Mapping[str, np.ndarray], wishes: Wishes, is_explained: bool) -> Answer:
        """``infer`` or ``infer_explained`` on this replica's own device; ``wishes`` are the options in that order."""
        outputs, request = await self._run(inputs, *wishes, is_traced=is_explained)
        if not is_explained:
            return outputs, None
        try:
            if self._groups:
                return outputs, await explanation_of_stays(request, self._groups)
            return outputs, await explanation(self._stated, request)
        except (UnknownRequestError, RayError):
            return outputs, None

    async def _run(
        self,
        inputs: Mapping[str, np.ndarray],
        priority: int | None,
        timeout_s: float | None,
        deadline_s: float | None,
        *,
        is_traced: bool = False,
    ) -> tuple[Outputs, Request]:
        check_inputs(inputs, self._input_specs)
        wanted_s = self._wanted_s(timeout_s, deadline_s)
        timeout_s = self.settings.timeout_s if timeout_s is None else timeout_s

        def make_request(loaded: LoadedModel) -> Request:
            return self._make_request(loaded, priority, wanted_s, is_traced=is_traced)

        try:
            async with asyncio.timeout(timeout_s):
                outputs, request = await self._take_turns(make_request, inputs)
                if self._later is not None:
                    outputs = await self._run_later(self._later, request, outputs)
                return outputs, request
        except TimeoutError as error:
            raise DeadlineExceededError(
                f"the request took longer than its time-out of {timeout_s} s and was given up: send it again, with a "
                "longer time-out or when the device is less busy"
            ) from error

    def _wanted_s(self, timeout_s: float | None, deadline_s: float | None) -> float | None:
        """By when the answer is wanted, in seconds after arrival; None: the request does not say."""
        if deadline_s is not None:
            return deadline_s
        return self.settings.timeout_s if timeout_s is None else timeout_s

    async def _take_turns(
        self,
        make_request: Callable[[LoadedModel], Request],
        inputs: Mapping[str, np.ndarray],
        *,
        on_block: Callable[[float], None] | None = None,
    ) -> tuple[Outputs, Request]:
        """What the blocks that are loaded give, and the whole request; a caller that is cancelled gives it up."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outputs] = loop.create_future()

        def on_result(result: Result) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, answer, result)

        with self._submit_lock:
            loaded = self._loaded
            request = make_request(loaded)
            loaded.thread.submit(self._own_stay(request), inputs, on_result, on_block=on_block)
        try:
            return await answer, request
        finally:
            if not answer.done() or answer.cancelled():
                loaded.thread.cancel(request.request_id)

    async def _run_later(self, later: LaterGroups, request: Request, values: Outputs) -> Outputs:
        """The outputs of the last group; what the blocks took there counts here as if they were this replica's."""
        block_times = self._loaded.block_times
        crossing = await later.run(request, values)
        for block, time_s in enumerate(crossing.block_times_s, start=self._groups[self._group].end_block):
            block_times.observe(block, time_s)
        return crossing.values

    def _own_stay(self, request: Request) -> Request:
        return stay(request, self._groups, self._group) if self._groups else request

    def apply(self, settings: ModelSettings, claim: DeviceSettings | None) -> None:
        """Other defaults for the requests that come from now on, and other wishes for the device.

        Args:
            settings: What requests want that do not say; model, folder and device are not looked at.
            claim: Settings of the device that all its models should have; they come into force once all that claim
                anything claim the same (see ``in_force``). None: whatever the others want.
        """
        self.settings = settings
        with self._submit_lock:
            if claim != self._claim:
                self._claim = claim
                self._loaded.thread.claim(claim)

    def serve_plan(self, folder: Path) -> None:
        """Go on with another plan of the same model; returns once it serves. Blocks until it is loaded.

        Raises:
            PlanNotFoundError, PlanInvalidError, PlanMismatchError, PlanNotForDeviceError: The old plan serves on.
        """
        old = self._folder
        self._folder = folder
        try:
            self._reload()
        except Exception:
            self._folder = old
            raise
        self.plan = SplitPlan.load(folder)

    def check_health(self) -> None:
        """Called by Serve; raises what makes it replace this replica (see ``DeviceThread.check_health``)."""
        self._loaded.thread.check_health()

    def block_times_s(self) -> tuple[float, ...]:
        """Predicted block times right now, in seconds; they follow what is measured."""
        return self._loaded.block_times.times_s

    @property
    def device_s(self) -> float:
        """How long this replica's blocks have run so far, warm-up included, in seconds."""
        return self._retired_s + self._loaded.block_times.total_s

    @property
    def copies(self) -> Copies:
        """What this replica's requests have sent to the device and got back so far, warm-up included."""
        return self._retired_copies + self._loaded.thread.copies

    def __del__(self) -> None:
        if (neighbours := getattr(self, "_neighbours", None)) is not None:
            neighbours.leave()
        if getattr(self, "_current", None) is not None:
            self._loaded.thread.close()

    def _on_settings(self, settings: DeviceSettings) -> None:
        """Called by the device thread."""
        self.in_force = settings
        if self._current is not None:
            self._reload_if_needed()

    def _reload_if_needed(self) -> None:
        if self._loaded.is_split != self._wants_blocks:
            threading.Thread(target=self._reload_beside, name="reload", daemon=True).start()

    def _reload_beside(self) -> None:
        try:
            self._reload()
        except Exception:
            logger.exception("model %r serves on as it was", self.settings.model)

    def _reload(self) -> None:
        """Replace what is loaded by what is wanted; returns when the last request has left the old blocks."""
        with self._reload_lock:
            while (self._loaded.folder, self._loaded.is_split) != (self._folder, self._wants_blocks):
                loaded = self._load()
                with self._submit_lock:
                    old, self._current = self._loaded, loaded
                    loaded.thread.claim(self._claim)  # it may have changed since the thread began
                while old.thread.num_unanswered:
                    time.sleep(_DRAIN_POLL_S)
                old.thread.close()
                self._retired_s += old.block_times.total_s
                self._retired_copies += old.thread.copies

    def _make_request(
        self, loaded: LoadedModel, priority: int | None, deadline_s: float | None, *, is_traced: bool = False
    ) -> Request:
        now_s = time.monotonic()
        isolated_s = loaded.block_times.isolated_s
        return Request(
            request_id=RequestId(os.urandom(16).hex()),  # as unique as uuid4, in a fifth of the time
            model=self.settings.model,
            owner=loaded.thread.owner,
            arrival_s=now_s,
            isolated_s=isolated_s,
            block_times_s=loaded.block_times.times_s,
            deadline_s=now_s + self.settings.aim_s(deadline_s, isolated_s),
            priority=priority or self.settings.priority,
            is_traced=is_traced,
        )
