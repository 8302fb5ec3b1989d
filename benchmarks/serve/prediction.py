"""What the simulator says about the same arrivals, fed with the costs that the rounds have measured.

Fed in: the median time of every block and the median hand-over from the slice log, and for each model what a request
alone takes on top of its blocks (network, proxy, decoding), which is added to its response. Not fed in: that the path
around the device gets slower when it is busy, and that block times vary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.serve.competitors import COMPETITORS
from benchmarks.serve.figures import MAIN_ALPHA, ratios_of
from benchmarks.serve.records import Round, Setting
from benchmarks.serve.turns import block_times_s, handover_s
from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.modes import Mode
from deployments.scheduling.policies.table import make_policy
from deployments.scheduling.request import Request, RequestId
from deployments.simulation.costs import Costs
from deployments.simulation.parallel import simulate_parallel
from deployments.simulation.simulator import simulate
from deployments.simulation.workload import Arrival, SimulatedModel, make_request


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Violations at 4 times the isolated time, predicted and seen.

    Attributes:
        competitor: Mode of our server.
        load: Share of the device's time asked for; None: a closed loop.
        simulated: Predicted share of late requests, 0 to 1.
        device_only: The same as if the path around the device took no time.
        live: What was measured.
        handover_us: Hand-over time that went in, microseconds.
    """

    competitor: str
    load: float | None
    simulated: float
    device_only: float
    live: float
    handover_us: float


def predict(rounds: Sequence[Round], setting: Setting, options: Mapping[str, object]) -> list[Prediction]:
    """One prediction for each mode of ours and load; ``parallel`` as ideal sharing of one core.

    Args:
        rounds: Any.
        setting: Theirs.
        options: Of the device's policy, for the mode that has it by itself.
    """
    groups: dict[tuple[str, float | None], list[Round]] = {}
    for each in sorted(rounds, key=lambda each: each.load or 0.0):
        groups.setdefault((each.competitor, each.load), []).append(each)
    predictions = []
    for (name, load), group in groups.items():
        mode = COMPETITORS[name].mode
        if mode is not None and any(each.slices for each in group):
            predictions.append(_predict(name, load, mode, group, setting, options))
    return predictions


def _predict(
    name: str,
    load: float | None,
    mode: Mode,
    rounds: Sequence[Round],
    setting: Setting,
    options: Mapping[str, object],
) -> Prediction:
    slices = [turn for each in rounds for turn in each.slices]
    idle_s = [gap for each in rounds for gap in handover_s(each.slices)] if mode.exclusive else []
    cost_s = median(idle_s) if idle_s else 0.0
    models = {
        model: SimulatedModel(
            name=model,
            isolated_s=isolated_s,
            # turns that were shared are longer than the model's own time
            block_times_s=(block_times_s(slices, model) if mode.exclusive else None)
            or ((isolated_s,) if mode.preemption == "never" else setting.blocks_s[model]),
        )
        for model, isolated_s in setting.isolated_s.items()
    }
    with_path: list[float] = []
    device_only: list[float] = []
    for each in rounds:
        path_s = {model: max(0.0, each.alone_s[model] - sum(known.block_times_s)) for model, known in models.items()}
        requests = [
            _request(number, outcome.scheduled_s, models[outcome.model], setting)
            for number, outcome in enumerate(each.outcomes)
        ]
        allocator = DeviceAllocator(
            policy=make_policy(mode.policy, options if name == "slo" else {}),
            exclusive=mode.exclusive,
            preemption=mode.preemption,
            handover_s=cost_s,
        )
        run = (
            simulate(requests, allocator, costs=Costs(handover_s=cost_s))
            if mode.exclusive
            else simulate_parallel(requests, allocator, interference=1.0)
        )
        for request in run.requests:
            took_s = run.finish_s.get(request.request_id, np.inf) - request.arrival_s
            device_only.append(took_s / request.isolated_s)
            with_path.append((took_s + path_s[request.model]) / request.isolated_s)
    live = [ratio for each in rounds for ratio in ratios_of(each.outcomes, setting)]
    return Prediction(
        competitor=name,
        load=load,
        simulated=float(np.mean(np.array(with_path) > MAIN_ALPHA)),
        device_only=float(np.mean(np.array(device_only) > MAIN_ALPHA)),
        live=float(np.mean(np.array(live) > MAIN_ALPHA)),
        handover_us=cost_s * 1e6,
    )


def _request(number: int, arrival_s: float, model: SimulatedModel, setting: Setting) -> Request:
    arrival = Arrival(arrival_s=arrival_s, model=model.name)
    return make_request(RequestId(str(number)), arrival, {model.name: model}, alpha=setting.alpha[model.name])
