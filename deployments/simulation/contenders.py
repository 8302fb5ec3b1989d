"""What a simulation compares: a policy with its options, how it preempts, and how the models are split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from deployments.scheduling.device_allocator import DeviceAllocator
from deployments.scheduling.modes import MODES, Preemption
from deployments.scheduling.policies.table import POLICIES, make_policy
from deployments.simulation.costs import Costs
from deployments.simulation.errors import ContenderError
from deployments.simulation.models import split_evenly
from deployments.simulation.workload import SimulatedModel

FINE_SPLIT = "vgg19=12,resnet50=5,others=2"

PAPER_CONTENDERS = (
    "parallel",
    "fifo",
    "bnst",
    "oyst;split=vgg19=3,resnet50=2",
    "srpt",
    "slo;late_reserve=none",
    "slo;late_reserve=none;alpha=2",
    "slo",
    "slo;admission=anyone_waiting",
)
"""The rows of the comparison with SPLIT, in the contenders' notation; to be split ``FINE_SPLIT`` unless stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One row of a table.

    Attributes:
        label: What to call it.
        policy: Name of the policy.
        options: Its options.
        exclusive: False: mode ``parallel``, the models run beside each other.
        preemption: See ``DeviceAllocator``.
        split: See ``models.split_evenly``; None: as the simulation says.
        alpha: Deadline, as a multiple of the isolated time; None: as the simulation says.
    """

    label: str
    policy: str
    options: Mapping[str, object] = field(default_factory=dict)
    exclusive: bool = True
    preemption: Preemption = "always"
    split: str | None = None
    alpha: float | None = None

    def make_allocator(self, costs: Costs) -> DeviceAllocator:
        """A fresh allocator.

        Raises:
            PolicyOptionError: If the policy has no such option, or not this value.
        """
        policy = make_policy(self.policy, self.options)
        return DeviceAllocator(
            policy=policy, exclusive=self.exclusive, preemption=self.preemption, handover_s=costs.handover_s
        )

    def split_models(
        self, models: Mapping[str, SimulatedModel], default_split: str | None, costs: Costs
    ) -> Mapping[str, SimulatedModel]:
        """The models in this contender's blocks; as they are where neither it nor the simulation says how.

        Raises:
            ModelTableError: If the split does not fit the models.
        """
        split = self.split or default_split
        return models if split is None else split_evenly(models, split, cut_overhead_s=costs.cut_overhead_s)


def read_contender(text: str) -> Contender:
    """A contender from ``name;key=value;key=value``.

    The name is a policy or a mode; a mode that never preempts runs models whole. Keys are ``split``,
    ``alpha``, ``preemption`` and the policy's options; the value ``none`` means none.

    Raises:
        ContenderError: If the text is not of this form.
        PolicyOptionError: If the policy has no such option, or not this value.
    """
    name, *settings = text.split(";")
    mode = next((mode for known, mode in MODES.items() if known == name), None)
    if mode is None and name not in POLICIES:
        raise ContenderError(text, f"no policy or mode {name!r}; known are {', '.join([*POLICIES, *MODES])}")
    split = "whole" if mode is not None and mode.preemption == "never" else None
    preemption: Preemption = "always" if mode is None else mode.preemption
    alpha: float | None = None
    options: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ContenderError(text, f"{setting!r} has not the form key=value")
        if key == "split":
            split = value
        elif key == "alpha":
            alpha = float(value)
        elif key == "preemption":
            preemption = _preemption(text, value)
        else:
            options[key] = _value(value)
    policy = name if mode is None else mode.policy
    make_policy(policy, options)
    return Contender(
        label=text,
        policy=policy,
        options=options,
        exclusive=mode is None or mode.exclusive,
        preemption=preemption,
        split=split,
        alpha=alpha,
    )


def _preemption(text: str, value: str) -> Preemption:
    for known in get_args(Preemption):
        if value == known:
            return known  # type: ignore[no-any-return]
    raise ContenderError(text, f"preemption={value}: allowed are {', '.join(get_args(Preemption))}")


def _value(text: str) -> object:
    if text in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[text]
    try:
        return float(text)
    except ValueError:
        return text
