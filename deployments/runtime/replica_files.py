"""The files of a replica in the folder of its device."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from deployments.runtime.device_page import DevicePage
from deployments.runtime.lease_page import LeasePage
from deployments.runtime.transport import Mailbox


class ReplicaFiles(NamedTuple):
    """What a replica shares with its device's allocator and with the other replicas.

    Attributes:
        page: How far its turn has come.
        mailbox: Where grants from others of the device come in.
        device: The turn lock, and whether the device is free.
    """

    page: LeasePage
    mailbox: Mailbox
    device: DevicePage

    @classmethod
    def create(cls, folder: Path) -> ReplicaFiles:
        """New ones in the device's folder.

        Raises:
            OSError: If one cannot be made.
        """
        page = LeasePage(folder / f"{uuid4().hex[:12]}.page", create=True)
        return cls(page, Mailbox(page.mailbox_path), DevicePage(folder))

    def close(self) -> None:
        """Close all, and remove what is this replica's own."""
        self.mailbox.close()
        self.page.close(unlink=True)
        self.device.close()
