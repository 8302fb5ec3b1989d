"""What the doctor has found, one thing at a time."""

from __future__ import annotations

from typing import Literal

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at.

    Attributes:
        topic: What it belongs to: ``versions``, ``providers``, ``models`` ...
        subject: What was looked at: a package, a provider, a model, a port.
        state: ``ok``; ``note``: it works, but better is possible, or nobody asks for it; ``broken``: the server would
            not start, or a model would not come up.
        text: What was found.
        fix: What to do; empty where nothing is to be done.
    """

    topic: str
    subject: str
    state: Literal["ok", "note", "broken"]
    text: str
    fix: str = ""


def broken_by(topic: str, subject: str, error: Exception) -> Finding:
    """A finding of one of our errors, whose message says both what is wrong and, after the last colon, what to do."""
    text, _, fix = " ".join(str(error).split()).rpartition(": ")
    return Finding(topic=topic, subject=subject, state="broken", text=text or fix, fix=fix if text else "")
