"""The options of the policies, typed and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Admission = Literal["off", "newcomer", "anyone_waiting"]


class OptionValueError(ValueError):
    """An option has a value that is not allowed; ``make_policy`` adds the policy's name."""

    def __init__(self, option: str, value: object, allowed: str) -> None:
        super().__init__(option, value, allowed)
        self.option = option
        self.value = value
        self.allowed = allowed


def _check_number(option: str, value: object, low: float, high: float, allowed: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low < value <= high:
        raise OptionValueError(option, value, allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOptions:
    """A policy without options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StarvationOptions:
    """Options of every policy but fifo.

    Attributes:
        starvation_bound_s: Age in seconds from which on a request is promoted; None: no such bound.
        starvation_bound_ratio: The same as a multiple of the request's isolated time; the smaller bound counts.
        promoted_share: Share of the device for promoted requests, above 0 and at most 1; with 1 they always come first.
        promote_across_priorities: True: a promoted request also passes requests of higher levels.
    """

    starvation_bound_s: float | None = 10.0
    starvation_bound_ratio: float | None = None
    promoted_share: float = 0.1
    promote_across_priorities: bool = False

    def __post_init__(self) -> None:
        if self.starvation_bound_s is not None:
            _check_number(
                "starvation_bound_s", self.starvation_bound_s, 0.0, float("inf"), "seconds above 0, or none for never"
            )
        if self.starvation_bound_ratio is not None:
            _check_number(
                "starvation_bound_ratio", self.starvation_bound_ratio, 0.0, float("inf"), "a number above 0, or none"
            )
        _check_number("promoted_share", self.promoted_share, 0.0, 1.0, "a number above 0 and at most 1")
        if not isinstance(self.promote_across_priorities, bool):
            raise OptionValueError("promote_across_priorities", self.promote_across_priorities, "true or false")


@dataclass(frozen=True, slots=True, kw_only=True)
class SloOptions(StarvationOptions):
    """Options of ``slo``.

    Attributes:
        starvation_bound_ratio: As for the others, with another default.
        late_reserve: A request that cannot be on time runs early where all others can wait for it and for this many
            times its isolated time more; None: only when nobody can be on time.
        admission: ``off``: nobody is refused. ``newcomer``: a request that could not be on time is refused when it
            comes. ``anyone_waiting``: also a waiting request that lost its place, as long as it has not begun.
    """

    starvation_bound_ratio: float | None = 20.0
    late_reserve: float | None = 0.375
    admission: Admission = "off"

    def __post_init__(self) -> None:
        super(SloOptions, self).__post_init__()  # the bare form fails in a slotted dataclass
        if self.late_reserve is not None:
            _check_number(
                "late_reserve", self.late_reserve, -1e-9, float("inf"), "a number of at least 0, or none for never"
            )
        if self.admission not in get_args(Admission):
            raise OptionValueError("admission", self.admission, ", ".join(get_args(Admission)))
