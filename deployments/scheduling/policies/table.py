"""All policies by name, with their options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from deployments.scheduling.errors import PolicyOptionError, UnknownPolicyError
from deployments.scheduling.policies.edf import make_edf
from deployments.scheduling.policies.fifo import make_fifo
from deployments.scheduling.policies.options import NoOptions, OptionValueError, SloOptions, StarvationOptions
from deployments.scheduling.policies.policy import Policy
from deployments.scheduling.policies.response_ratio import make_response_ratio
from deployments.scheduling.policies.sjf import make_sjf
from deployments.scheduling.policies.slo import make_slo
from deployments.scheduling.policies.srpt import make_srpt


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    """One policy.

    Attributes:
        make: Makes an instance from its options.
        options_type: What the options are.
    """

    make: Callable[[Any], Policy]
    options_type: type[Any]


POLICIES: Mapping[str, PolicyEntry] = {
    "fifo": PolicyEntry(make=make_fifo, options_type=NoOptions),
    "sjf": PolicyEntry(make=make_sjf, options_type=StarvationOptions),
    "srpt": PolicyEntry(make=make_srpt, options_type=StarvationOptions),
    "edf": PolicyEntry(make=make_edf, options_type=StarvationOptions),
    "response_ratio": PolicyEntry(make=make_response_ratio, options_type=StarvationOptions),
    "slo": PolicyEntry(make=make_slo, options_type=SloOptions),
}


def make_policy(name: str, options: Mapping[str, object] | None = None) -> Policy:
    """A new policy, by name.

    Args:
        name: One of ``POLICIES``.
        options: Values for the fields of its options type; the others keep their defaults.

    Raises:
        UnknownPolicyError: If there is no such policy.
        PolicyOptionError: If it has no such option, or the option no such value; the message says what is allowed.
    """
    entry = POLICIES.get(name)
    if entry is None:
        raise UnknownPolicyError("policy", name, tuple(POLICIES))
    given = dict(options or {})
    known = [field.name for field in fields(entry.options_type)]
    for option, value in given.items():
        if option not in known:
            allowed = f"are the options {', '.join(known)}" if known else "are no options"
            raise PolicyOptionError(name, option, value, allowed)
    try:
        return entry.make(entry.options_type(**given))
    except OptionValueError as error:
        raise PolicyOptionError(name, error.option, error.value, f"is {error.allowed}") from error
