"""What is kept of the turns of a device: the slice log, and what explains where the time of a request went."""

from __future__ import annotations

import threading
from collections import OrderedDict

from deployments.runtime.messages import Slice
from deployments.runtime.slice_log import SliceLog
from deployments.scheduling.errors import UnknownRequestError
from deployments.scheduling.explanation import Explanation, explain, is_of_stay
from deployments.scheduling.notes import Notes
from deployments.scheduling.request import Request, RequestId

RECORD_LIMIT_S = 1.0
MAX_NOTES = 1000


class TurnRecords:
    """Bounded: the last turns, and the notes on the last traced stays that have ended.

    Attributes:
        slices: The turns.
    """

    def __init__(self, lock: threading.Lock) -> None:
        """Nothing yet; ``lock`` is held by whoever calls ``record`` and ``keep_notes``."""
        self.slices = SliceLog()
        self._has_recorded = threading.Condition(lock)
        self._notes: OrderedDict[tuple[RequestId, int], Notes] = OrderedDict()

    def record(self, turn: Slice) -> None:
        """A turn has ended."""
        self.slices.record(turn)
        self._has_recorded.notify_all()

    def keep_notes(self, request: Request, notes: Notes) -> None:
        """The stay of a traced request has ended."""
        self._notes[request.request_id, request.first_block] = notes
        if len(self._notes) > MAX_NOTES:
            self._notes.popitem(last=False)

    def explain(self, request: Request) -> Explanation:
        """Where the time of a request went that has just been answered; waits for the news of its last turn.

        Raises:
            UnknownRequestError: If no turn of it is in the log, or its last one does not come within a second.
        """

        def turns() -> list[Slice]:
            return self.slices.after(request.arrival_s)

        def is_over() -> bool:
            return any(is_of_stay(turn, request) and turn.outcome != "yielded" for turn in turns())

        with self._has_recorded:
            if not self._has_recorded.wait_for(is_over, timeout=RECORD_LIMIT_S):
                raise UnknownRequestError(request.request_id)
            return explain(turns(), request, notes=self._notes.get((request.request_id, request.first_block)))
