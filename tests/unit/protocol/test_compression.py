"""Compressed request bodies."""

from __future__ import annotations

import gzip
import zlib

import pytest

from serve_app.protocol import RequestLimits, decompress_body, errors

LIMITS = RequestLimits(max_body_bytes=1000)


@pytest.mark.parametrize("encoding", [None, "", "identity"])
def test_a_body_without_encoding_is_given_back_as_it_is(encoding: str | None) -> None:
    body = b"abc"
    assert decompress_body(body, encoding, LIMITS) is body


def test_gzip_and_deflate_are_expanded() -> None:
    assert decompress_body(gzip.compress(b"abc"), "gzip", LIMITS) == b"abc"
    assert decompress_body(zlib.compress(b"abc"), "Deflate", LIMITS) == b"abc"


def test_a_body_that_would_expand_past_the_limit_is_refused() -> None:
    with pytest.raises(errors.BodyTooLargeError, match="1000"):
        decompress_body(gzip.compress(bytes(10_000_000)), "gzip", LIMITS)


@pytest.mark.parametrize("body", [b"abc", gzip.compress(b"abc")[:-2], gzip.compress(b"abc") + b"x", b""])
def test_a_broken_stream_is_refused(body: bytes) -> None:
    with pytest.raises(errors.ContentEncodingError, match="gzip"):
        decompress_body(body, "gzip", LIMITS)


def test_an_unknown_encoding_is_refused_with_the_known_ones() -> None:
    with pytest.raises(errors.ContentEncodingError, match="'br'; allowed: gzip, deflate"):
        decompress_body(b"", "br", LIMITS)
