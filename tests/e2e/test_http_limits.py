"""Limits of HTTP that a client meets: size of a request, its time-out, connections kept open."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.http_request import binary_request
from tests.models import random_input

INFER = "/v2/models/vgg19/infer"


@pytest.fixture
def connection(url: str) -> Iterator[http.client.HTTPConnection]:
    opened = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    yield opened
    opened.close()


def test_a_body_that_is_announced_too_large_is_refused_before_it_is_sent(
    connection: http.client.HTTPConnection,
) -> None:
    connection.putrequest("POST", INFER)
    connection.putheader("Content-Length", str(257 * 2**20))
    connection.endheaders(b"the first bytes")
    answer = connection.getresponse()
    assert answer.status == 413
    assert "raise http.max_body_mb" in json.loads(answer.read())["error"]


def test_a_connection_is_kept_for_the_next_request_whatever_the_answer_was(
    connection: http.client.HTTPConnection,
) -> None:
    late = binary_request(random_input("vgg19"), timeout=20_000)
    used = set()
    for body, headers, status in [(b"nonsense", {}, 400), (late["content"], late["headers"], 504), (b"{}", {}, 400)]:
        connection.request("POST", INFER, body, headers)
        assert connection.sock is not None
        used.add(connection.sock.getsockname())
        answer = connection.getresponse()
        answer.read()
        assert (answer.status, answer.will_close) == (status, False)
    assert len(used) == 1
