"""Request bodies that a client has compressed (tritonclient: ``request_compression_algorithm``)."""

from __future__ import annotations

import zlib

from serve_app.protocol.errors import BodyTooLargeError, ContentEncodingError
from serve_app.protocol.limits import RequestLimits

_WINDOW_BITS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


def decompress_body(body: bytes | bytearray, content_encoding: str | None, limits: RequestLimits) -> bytes | bytearray:
    """The body as the client had it before compression; the same object if it was not compressed.

    Never makes more than ``limits.max_body_bytes``, whatever the body would expand to.

    Args:
        body: As received.
        content_encoding: The HTTP header of that name; None if absent.
        limits: Upper bounds.

    Raises:
        ContentEncodingError: If the encoding is unknown, or the body is cut off or not encoded so.
        BodyTooLargeError: If it expands to more than the limit.
    """
    encoding = (content_encoding or "identity").strip().lower()
    if encoding == "identity":
        return body
    if encoding not in _WINDOW_BITS:
        raise ContentEncodingError(
            f"unknown Content-Encoding {encoding[:100]!r}; allowed: {', '.join(_WINDOW_BITS)}, or none"
        )
    stream = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        expanded = stream.decompress(body, limits.max_body_bytes + 1)
    except zlib.error as error:
        raise ContentEncodingError(f"the body is not {encoding}: {error}") from error
    if len(expanded) > limits.max_body_bytes:
        raise BodyTooLargeError(f"the body expands to more than the {limits.max_body_bytes} bytes allowed")
    if not stream.eof or stream.unused_data:
        raise ContentEncodingError(f"the body is no whole {encoding} stream")
    return expanded
