"""How large a request may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Upper bounds on one request.

    Attributes:
        max_body_bytes: Size of the whole body, after decompression.
        max_json_bytes: Size of its JSON part. Parsing JSON numbers holds the interpreter lock (about 10 ms per
            megabyte of them), which a device thread in the same process needs at a block boundary; the binary
            form is a view and costs nothing.
    """

    max_body_bytes: int = 256 * 1024 * 1024
    max_json_bytes: int = 4 * 1024 * 1024
