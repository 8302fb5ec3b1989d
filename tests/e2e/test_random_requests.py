"""Whatever is sent to a running server, it answers; and never with a fault of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.e2e.conftest import EXPLAINED
from tests.http_request import binary_request
from tests.models import random_input

LENGTH = "Inference-Header-Content-Length"
GOOD = binary_request(random_input("squeezenet"))
GOOD_HEADER = json.loads(GOOD["content"][: int(GOOD["headers"][LENGTH])])

plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=30) as opened:
        yield opened


def check(answer: httpx.Response) -> None:
    if answer.status_code != 200:
        assert list(answer.json()) == ["error"]
    assert answer.status_code < 500 or answer.status_code in EXPLAINED, answer.text


def infer(client: httpx.Client, content: bytes, header_length: int | None) -> None:
    headers = {} if header_length is None else {LENGTH: str(header_length)}
    check(client.post("/v2/models/squeezenet/infer", content=content, headers=headers))


@settings(deadline=None, max_examples=100)
@given(content=st.binary(max_size=300), header_length=st.none() | st.integers(-1, 400))
def test_random_bytes_are_answered(client: httpx.Client, content: bytes, header_length: int | None) -> None:
    infer(client, content, header_length)


@settings(deadline=None, max_examples=100)
@given(place=st.integers(0, 400), noise=st.binary(min_size=1, max_size=20), change=st.just(0) | st.integers(-300, 300))
def test_a_damaged_binary_request_is_answered(client: httpx.Client, place: int, noise: bytes, change: int) -> None:
    content = GOOD["content"]
    damaged = content[:place] + noise + content[place + len(noise) :]
    infer(client, damaged, max(0, int(GOOD["headers"][LENGTH]) + change))


@settings(deadline=None, max_examples=150)
@given(
    where=st.sampled_from(["id", "parameters", "inputs", "outputs"]),
    below=st.none() | st.sampled_from(["name", "shape", "datatype", "parameters", "data"]),
    value=values,
)
def test_a_request_with_a_wrong_value_somewhere_is_answered(
    client: httpx.Client, where: str, below: str | None, value: Any
) -> None:
    request = json.loads(json.dumps(GOOD_HEADER))
    if below is None or where in ("id", "parameters"):
        request[where] = value
    else:
        request[where] = [{**GOOD_HEADER["inputs"][0], below: value}]
    header = json.dumps(request).encode(errors="replace")
    infer(client, header + GOOD["content"][int(GOOD["headers"][LENGTH]) :], len(header))


@settings(deadline=None, max_examples=100)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD"]),
    parts=st.lists(
        st.sampled_from(
            ["v2", "models", "squeezenet", "versions", "1", "ready", "stats", "config", "devices", "slices"]
        )
        | st.text("az09 %/?.-é", max_size=8),
        max_size=6,
    ),
)
def test_every_path_is_answered(client: httpx.Client, method: str, parts: list[str]) -> None:
    answer = client.request(method, f"{client.base_url}/{quote('/'.join(parts))}")
    assert answer.status_code < 500 or answer.status_code in EXPLAINED, answer.text
