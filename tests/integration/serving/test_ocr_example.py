"""The example that composes two models: a picture in, its text out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from ray import serve

from examples.ocr.app import reader
from examples.ocr.ask import LINES, draw
from examples.ocr.prepare import FOLDER, DownloadError, prepare
from serve_app.app import model
from serve_app.config import load_config
from serve_app.sections import ModelConfig
from tests.integration.serving.observe import slices, status, wait_until
from tests.models import ROOT

DEVICE = {"index": 13}


@pytest.fixture(scope="module")
def repository() -> Path:
    try:
        return prepare(ROOT / FOLDER)
    except DownloadError as error:
        pytest.skip(f"the example's models cannot be downloaded: {error}")


@pytest.fixture(scope="module")
def url(cluster: int, repository: Path) -> Iterator[str]:
    """Where the example's deployment answers."""
    names = ("ppocr_det", "ppocr_rec")
    for name in names:
        config = ModelConfig(model=name, repository=str(repository), device=DEVICE)
        serve.run(model(config), name=name, route_prefix=f"/v2/models/{name}")
    serve.run(reader({"repository": str(repository)}), name="reader", route_prefix="/read")
    yield f"http://127.0.0.1:{cluster}/read"
    for name in ("reader", *names):
        serve.delete(name)


def test_the_text_in_a_picture_is_read_by_two_models_under_one_allocator(url: str) -> None:
    since = status("cpu-13")["num_slices"]
    answer = httpx.post(url, content=draw(), timeout=60)
    assert answer.status_code == 200, answer.text
    assert [line["text"] for line in answer.json()] == list(LINES)

    def finished() -> list[str]:
        return [turn["model"] for turn in slices("cpu-13", since) if turn["outcome"] == "finished"]

    wait_until(lambda: len(finished()) == 3, "the turns are recorded")
    assert finished() == ["ppocr_det", "ppocr_rec", "ppocr_rec"]


async def test_a_client_that_goes_away_takes_the_request_off_the_device(url: str) -> None:
    since = status("cpu-13")["num_slices"]
    async with httpx.AsyncClient() as client:
        request = asyncio.create_task(client.post(url, content=draw(LINES * 8, height=1536), timeout=60))
        await asyncio.to_thread(wait_until, lambda: bool(status("cpu-13")["snapshot"]["holders"]), "the detector runs")
        request.cancel()
        await asyncio.to_thread(wait_until, lambda: bool(slices("cpu-13", since)), "the turn is recorded")
    assert [(turn["model"], turn["outcome"]) for turn in slices("cpu-13", since)] == [("ppocr_det", "cancelled")]


def test_the_examples_configuration_is_right(repository: Path, tmp_path: Path) -> None:
    config = yaml.safe_load((ROOT / "examples/ocr/config.yaml").read_text())
    for entry in config["applications"]:
        if "repository" in entry.get("args", {}):
            entry["args"]["repository"] = str(repository)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    assert [each.model for each in load_config(path).models] == ["ppocr_det", "ppocr_rec"]
