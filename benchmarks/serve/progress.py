"""What one sees while rounds run: which competitor, how many requests, and how much time is left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from benchmarks.load.report import Outcome
from benchmarks.serve.rounds import Start, Watcher
from deployments.simulation.workload import Arrival

# What a start and the checks before a round take together, until there is something measured.
ASSUMED_OVERHEAD_S = 28.0
# After the last arrival the queue is emptied: this share of a round on top.
_ASSUMED_DRAIN = 0.15


class RoundProgress(Watcher):
    """A line for the requests of the round, and one for all starts with the time left."""

    def __init__(self, console: Console, starts: Sequence[Start], *, seconds: float) -> None:
        self._left = list(starts)
        self._seconds = seconds
        self._overheads_s: list[float] = []
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total}"),
            TextColumn("{task.fields[state]}"),
            console=console,
            refresh_per_second=1,  # drawing takes time from the core that the load generator is on
        )
        self._all = self._progress.add_task("starts", total=len(starts), state="")
        self._round = self._progress.add_task("", total=None, state="", visible=False)
        self._num_sent = self._num_finished = self._num_failed = 0
        self._began_s = 0.0

    def __enter__(self) -> RoundProgress:
        self._progress.start()
        self._show_left()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    @property
    def left_s(self) -> float:
        """How long the rest will take, by what starts and stops took so far."""
        overhead_s = sum(self._overheads_s) / len(self._overheads_s) if self._overheads_s else ASSUMED_OVERHEAD_S
        return sum(overhead_s + self._load_s(start) for start in self._left)

    def on_starting(self, start: Start) -> None:
        """Tell that a server is being started."""
        self._began_s = time.monotonic()
        text = f"{start.competitor.name}, round {start.number + 1}: starting"
        self._progress.update(self._round, description=text, total=None, completed=0, state="", visible=True)

    def on_loading(self, start: Start, load: float | None, num_arrivals: int | None) -> None:
        """See ``Watcher``."""
        self._num_sent = self._num_finished = self._num_failed = 0
        shown = "closed loop" if load is None else f"load {load:g}"
        text = f"{start.competitor.name}, round {start.number + 1}: {shown}"
        self._progress.update(self._round, description=text, total=num_arrivals, completed=0)

    def on_ended(self, start: Start) -> None:
        """Tell that a server has been stopped, whatever came out."""
        self._left.remove(start)
        self._overheads_s.append(max(0.0, time.monotonic() - self._began_s - self._load_s(start)))
        self._progress.update(self._all, advance=1)
        self._show_left()

    def _load_s(self, start: Start) -> float:
        return len(start.loads) * self._seconds * (1 + _ASSUMED_DRAIN)

    def on_sent(self, arrival: Arrival) -> None:
        """See ``Watcher``."""
        self._num_sent += 1

    def on_finished(self, outcome: Outcome) -> None:
        """See ``Watcher``."""
        self._num_finished += 1
        self._num_failed += outcome.failure is not None
        state = f"{self._num_sent - self._num_finished} under way, {self._num_failed} failed"
        self._progress.update(self._round, completed=self._num_finished, state=state)

    def _show_left(self) -> None:
        self._progress.update(self._all, state=f"about {self.left_s / 60:.0f} min left")
