"""One second on the device, in several modes, on the same arrivals: from the allocator's slice log."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.patches import Patch

from benchmarks.serve.records import Round, Setting

MODES = ("fifo", "parallel", "slo")
WINDOW_S = 1.0
# From the smallest model to the largest: the small ones are what is late, so they are the strong colours.
_COLOURS = ("#d7191c", "#f4842c", "#2b83ba", "#7fbf7b", "#c9c9c9", "#b3a2c7", "#8c6d31", "#e7969c")


def draw_timelines(figure: SubFigure, rounds: Sequence[Round], setting: Setting) -> None:
    """One panel for each of ``MODES`` that was measured, all of the same second of the same round.

    Each model has a lane; a bar is a turn on the device, a thin line reaches from a request's arrival to its answer.
    """
    by_mode = {each.competitor: each for each in rounds if each.number == _number(rounds) and each.slices}
    modes = [mode for mode in MODES if mode in by_mode]
    if not modes:
        return
    models = sorted(setting.isolated_s, key=lambda model: setting.isolated_s[model])
    start_s = _busiest_second(by_mode[modes[0]])
    panels = figure.subplots(len(modes), 1, sharex=True, squeeze=False)[:, 0]
    for axes, mode in zip(panels, modes, strict=True):
        _draw_mode(axes, by_mode[mode], models, start_s, setting)
    panels[-1].set_xlabel("milliseconds")
    panels[0].set_title(
        "One second of the device, the same arrivals: bars are turns, lines reach from arrival to answer (red: later "
        "than 4x)"
    )
    figure.legend(
        handles=[
            Patch(color=_colour(place), label=f"{model} ({setting.isolated_s[model] * 1e3:.0f} ms)")
            for place, model in enumerate(models)
        ],
        loc="outside lower center",
        ncols=len(models),
        frameon=False,
    )


def _number(rounds: Sequence[Round]) -> int | None:
    """The first round that has most of the modes."""
    numbers = sorted({each.number for each in rounds})
    return max(
        numbers,
        key=lambda number: len({each.competitor for each in rounds if each.number == number} & set(MODES)),
        default=None,
    )


def _busiest_second(of_round: Round) -> float:
    """Where most requests of most models arrive, in seconds after the start of the round."""
    outcomes = of_round.outcomes

    def score(start_s: float) -> int:
        models = [each.model for each in outcomes if start_s <= each.scheduled_s < start_s + WINDOW_S]
        return len(models) + 2 * len(set(models))

    starts_s = [max(0.0, each.scheduled_s - WINDOW_S / 20) for each in outcomes]
    return max(starts_s, key=score, default=0.0)


def _draw_mode(axes: Axes, of_round: Round, models: Sequence[str], start_s: float, setting: Setting) -> None:
    lane = {model: len(models) - 1 - place for place, model in enumerate(models)}
    end_s = start_s + WINDOW_S

    def to_ms(time_s: float) -> float:
        return (time_s - start_s) * 1e3

    for turn in of_round.slices:
        begin_s, finish_s = turn.start_s - of_round.began_s, turn.end_s - of_round.began_s
        if begin_s < end_s and finish_s > start_s:
            axes.barh(
                lane[turn.model],
                (finish_s - begin_s) * 1e3,
                left=to_ms(begin_s),
                height=0.7,
                color=_colour(models.index(turn.model)),
                edgecolor="white",
                linewidth=0.4,
            )
    for outcome in of_round.outcomes:
        if outcome.scheduled_s < end_s and outcome.finished_s > start_s:
            is_late = outcome.finished_s - outcome.scheduled_s > 4 * setting.isolated_s[outcome.model]
            height, colour = lane[outcome.model] + 0.42, "#d7191c" if is_late else "#555555"
            axes.plot(
                [to_ms(outcome.scheduled_s), to_ms(outcome.finished_s)], [height, height], color=colour, linewidth=1.4
            )
            axes.plot([to_ms(outcome.scheduled_s)], [height], marker="|", markersize=8, color=colour)
    axes.set(xlim=(0, WINDOW_S * 1e3), ylim=(-0.5, len(models) - 0.3))
    axes.set_yticks([])
    axes.set_ylabel(of_round.competitor, fontsize=14, fontweight="bold" if of_round.competitor == "slo" else None)
    axes.spines[["top", "right"]].set_visible(False)


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]
