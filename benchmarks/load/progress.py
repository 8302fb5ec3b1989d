"""What one sees while a run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.load.report import Outcome, response_ratio
from deployments.simulation.workload import Arrival


class LoadProgress:
    """A bar of answered requests, with those under way, late (over 4 times alone, or failed) and failed so far."""

    def __init__(self, console: Console, *, mode: str, num_arrivals: int, isolated_s: Mapping[str, float]) -> None:
        self._isolated_s = isolated_s
        self._num_sent = 0
        self._num_finished = 0
        self._num_late = 0
        self._num_failed = 0
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
            refresh_per_second=2,
        )
        self._task = self._progress.add_task(mode, total=num_arrivals, state="")

    def __enter__(self) -> LoadProgress:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def on_sent(self, arrival: Arrival) -> None:
        """Count a request that went out."""
        self._num_sent += 1
        self._show()

    def on_finished(self, outcome: Outcome) -> None:
        """Count an answer or a failure."""
        self._num_finished += 1
        self._num_failed += outcome.failure is not None
        self._num_late += response_ratio(outcome, self._isolated_s) > 4
        self._show()

    def _show(self) -> None:
        num_waiting = self._num_sent - self._num_finished
        state = f"{num_waiting} under way, {self._num_late} late, {self._num_failed} failed"
        self._progress.update(self._task, completed=self._num_finished, state=state)
