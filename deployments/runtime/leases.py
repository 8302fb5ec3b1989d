"""The leases of one device that are out, and the one that the holder may pass on."""

from __future__ import annotations

from collections.abc import Iterator

from deployments.runtime.lease_page import LeasePage, Offer, Progress
from deployments.runtime.messages import Grant, encode, next_lease
from deployments.runtime.replica_connection import ReplicaConnection
from deployments.scheduling.request import Request, RequestId


class Lease:
    """A lease that is out.

    Attributes:
        number: Its number.
        replica: Who has it.
        last_boundary_s: When it was granted, or the last boundary since that is known of, monotonic.
        is_reported: Whether it was found to last too long.
    """

    __slots__ = ("is_reported", "last_boundary_s", "number", "replica")

    def __init__(self, number: int, replica: ReplicaConnection, granted_s: float) -> None:
        self.number = number
        self.replica = replica
        self.last_boundary_s = granted_s
        self.is_reported = False

    @property
    def progress(self) -> Progress | None:
        """How far its holder has come; None if that does not run under it."""
        page = self.replica.page
        progress = None if page is None else page.progress
        return progress if progress is not None and progress.lease == self.number else None


class Leases:
    """By request; at most one of an exclusive device, but for the news that is still on its way."""

    def __init__(self) -> None:
        self._by_request: dict[RequestId, Lease] = {}
        self._last_number = 0
        self._offered: dict[int, Request] = {}  # to the holder, all of them: it may have used any
        self._offered_last: RequestId | None = None  # whom its page names

    def __iter__(self) -> Iterator[tuple[RequestId, Lease]]:
        return iter(list(self._by_request.items()))

    def progress(self) -> Iterator[tuple[RequestId, Progress]]:
        """How far those have come that run, as their pages say."""
        for request_id, lease in self:
            if (progress := lease.progress) is not None:
                yield request_id, progress

    def find_overdue(self, limit_s: float, now_s: float) -> Iterator[tuple[RequestId, LeasePage]]:
        """Those that have met no boundary for ``limit_s`` seconds, once each; their pages say so from now on."""
        for request_id, lease in self:
            if lease.is_reported or now_s < lease.last_boundary_s + limit_s:
                continue
            if (progress := lease.progress) is not None:
                lease.last_boundary_s = max(lease.last_boundary_s, progress.boundary_s)
            page = lease.replica.page
            if page is not None and now_s >= lease.last_boundary_s + limit_s:
                lease.is_reported = True
                page.mark_overdue(lease.number)
                yield request_id, page

    def get(self, request_id: RequestId | None) -> Lease | None:
        """The lease of a request."""
        return None if request_id is None else self._by_request.get(request_id)

    def open(self, request_id: RequestId, replica: ReplicaConnection, now_s: float, number: int | None = None) -> Lease:
        """A lease for the request, with a new number unless it has one."""
        if number is None:
            number = next_lease(self._last_number)
        self._last_number = max(number, self._last_number)
        self._by_request[request_id] = lease = Lease(number, replica, now_s)
        return lease

    def close(self, request_id: RequestId, number: int) -> bool:
        """The lease is over; False if it is not the one that the request is known to have."""
        lease = self._by_request.get(request_id)
        if lease is None or lease.number != number:
            self._offered.pop(number, None)  # it was passed on and is over, before the news of the passing
            return False
        del self._by_request[request_id]
        return True

    def forget(self, replica: ReplicaConnection) -> None:
        """The replica is gone, with its leases."""
        for request_id in [each for each, lease in self._by_request.items() if lease.replica is replica]:
            del self._by_request[request_id]
            self._forget_offers()

    def offer(self, holder: RequestId | None, successor: Request | None, replica: ReplicaConnection | None) -> None:
        """Let the holder know whom to pass the device on to; None: to nobody.

        Args:
            holder: Who holds the device.
            successor: Who comes next.
            replica: That one's.
        """
        lease = self.get(holder)
        if lease is None or lease.replica.page is None:
            self._offered_last = None
            return
        if successor is None or replica is None or replica.page is None:
            lease.replica.page.withdraw_offer()
            self._offered_last = None
            return
        if self._offered_last == successor.request_id:
            return
        self._last_number = number = next_lease(self._last_number)
        packet = encode(Grant(request_id=successor.request_id, lease=number))
        self._offered[number] = successor
        self._offered_last = successor.request_id
        lease.replica.page.offer(lease.number, Offer(lease=number, mailbox=replica.page.mailbox, packet=packet))

    def take_offer(self, number: int | None) -> Request | None:
        """Whom the holder has passed the device on to, now that its turn is over."""
        request = None if number is None else self._offered.get(number)
        self._forget_offers()
        return request

    def _forget_offers(self) -> None:
        self._offered.clear()
        self._offered_last = None
