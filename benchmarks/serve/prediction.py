"""What the simulator says about the same arrivals, fed with the costs that the rounds have measured.

Fed in: the mean time of every block in each round, the median hand-over, and what requests that met no other took on
top of their turns (network, proxy, decoding): each request counts once with every one of these. Deadlines are those of
the server, which takes a model's isolated time from its split plan and corrects it by what the blocks take. Not fed in:
that the path around the device gets slower when much is going on, and that the device is slower at times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.load.report import violation_share
from benchmarks.serve.competitors import COMPETITORS
from benchmarks.serve.figures import MAIN_ALPHA, by_competitor_and_load, ratios_of
from benchmarks.serve.records import Round, Setting
from benchmarks.serve.turns import block_times_s, handover_s, lone_path_s
from deployments.runtime.model_settings import ModelSettings
from deployments.runtime.settings import DeviceSettings
from deployments.scheduling.modes import Mode
from deployments.scheduling.request import Request, RequestId
from deployments.simulation import experiment
from deployments.simulation.contenders import Contender
from deployments.simulation.costs import Costs
from deployments.simulation.experiment import run_requests
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
    """One prediction for each mode of ours and load; ``parallel`` as even sharing of one core by the models.

    Args:
        rounds: Any.
        setting: Theirs.
        options: Of the device's policy, for the mode that has it by itself.
    """
    predictions = []
    for (name, load), group in by_competitor_and_load(rounds).items():
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
    idle_s = [gap for each in rounds for gap in handover_s(each.slices)] if mode.exclusive else []
    cost_s = median(idle_s) if idle_s else 0.0
    lone_s = [path for each in rounds for path in lone_path_s(each.outcomes, each.slices, each.began_s)]
    contender = Contender(
        label=name,
        policy=mode.policy,
        options=options if name == "slo" else {},
        exclusive=mode.exclusive,
        preemption=mode.preemption,
    )
    with_path: list[float] = []
    device_only: list[float] = []
    for each in rounds:
        models = _models(each, mode, setting)
        requests = [
            _request(number, outcome.scheduled_s, models[outcome.model], setting)
            for number, outcome in enumerate(each.outcomes)
        ]
        run = run_requests(contender, requests, experiment.Setting(costs=Costs(handover_s=cost_s)))
        for request in run.requests:
            isolated_s = setting.isolated_s[request.model]
            took_s = run.finish_s.get(request.request_id, math.inf) - request.arrival_s
            # with no lone request: what is left of the one before the round
            paths_s = lone_s or [max(0.0, each.alone_s[request.model] - sum(request.block_times_s))]
            device_only.append(took_s / isolated_s)
            with_path += [(took_s + path_s) / isolated_s for path_s in paths_s]
    live = [ratio for each in rounds for ratio in ratios_of(each.outcomes, setting)]
    return Prediction(
        competitor=name,
        load=load,
        simulated=violation_share(with_path, MAIN_ALPHA),
        device_only=violation_share(device_only, MAIN_ALPHA),
        live=violation_share(live, MAIN_ALPHA),
        handover_us=cost_s * 1e6,
    )


def _models(each: Round, mode: Mode, setting: Setting) -> dict[str, SimulatedModel]:
    """The models as the server knew them in this round; those that share the device with their times alone."""
    models = {}
    for model, isolated_s in setting.isolated_s.items():
        if not mode.exclusive:
            models[model] = SimulatedModel(name=model, isolated_s=isolated_s, block_times_s=(isolated_s,))
            continue
        planned_s = setting.planned_s.get(model, sum(setting.blocks_s[model]))
        planned_blocks_s = (planned_s,) if mode.preemption == "never" else setting.blocks_s[model]
        times_s = block_times_s(each.slices, model) or planned_blocks_s
        known_s = planned_s * sum(times_s) / sum(planned_blocks_s)
        models[model] = SimulatedModel(name=model, isolated_s=known_s, block_times_s=times_s)
    return models


def _request(number: int, arrival_s: float, model: SimulatedModel, setting: Setting) -> Request:
    alpha = setting.alpha[model.name]
    settings = ModelSettings(
        model=model.name,
        folder="",
        device=DeviceSettings(),
        alpha=alpha,
        margin=setting.margin.get(model.name, 0.0),
        margin_s=setting.margin_s.get(model.name, 0.0),
    )
    arrival = Arrival(arrival_s=arrival_s, model=model.name, deadline_s=settings.aim_s(None, model.isolated_s))
    return make_request(RequestId(str(number)), arrival, {model.name: model}, alpha=alpha)
