"""Progress on standard error: a bar on a terminal, one line per phase elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Report(Protocol):
    """Told what is going on: the phase, and the share of it that is done, 0 to 1."""

    def __call__(self, phase: str, share: float) -> None:
        """Called often; must be quick."""


def silent(phase: str, share: float) -> None:
    """Reports nothing."""


class ProgressBar:
    """A ``Report`` for people; use it as a context manager."""

    def __init__(self, title: str) -> None:
        """``title`` stands before each phase, the model's name for example."""
        self._title = title
        self._console = Console(stderr=True)
        self._phase = ""
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> ProgressBar:
        """Show the bar, on a terminal."""
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._console.is_terminal:
            self._bar.stop()

    def __call__(self, phase: str, share: float) -> None:
        """Show the phase and its share."""
        is_new = phase != self._phase
        self._phase = phase
        if not self._console.is_terminal:
            if is_new:
                self._console.print(f"{self._title}: {phase}", markup=False, highlight=False, soft_wrap=True)
            return
        if self._task is None or is_new:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(f"{self._title}: {phase}", total=1.0)
        self._bar.update(self._task, completed=share)
