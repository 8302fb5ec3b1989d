"""The commands that README shows are really answered."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import httpx

from tests.models import ROOT


def readme_commands(first_word: str) -> str:
    """The first shell block of README that begins with the word."""
    blocks: list[str] = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return next(block for block in blocks if block.startswith(first_word))


def test_the_curl_example_gets_an_answer(url: str, tmp_path: Path) -> None:
    commands = readme_commands("printf").replace("http://127.0.0.1:8000", url)
    done = subprocess.run(["bash", "-ec", commands], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["model_name"] == "squeezenet"
    (output,) = answer["outputs"]
    assert output["shape"] == [1, 1000, 1, 1]
    assert len(output["data"]) == 1000


def test_the_pages_that_describe_the_interface_are_there(url: str) -> None:
    for root in ("", "/v2/models/squeezenet"):
        page = httpx.get(f"{url}{root}/docs")
        assert page.status_code == 200
        assert f"url: '{root}/openapi.json'" in page.text
        described = httpx.get(f"{url}{root}/openapi.json").json()
        assert described["openapi"].startswith("3.")
        assert described["paths"]
    assert "/infer" in httpx.get(f"{url}/v2/models/squeezenet/openapi.json").json()["paths"]


def test_errors_are_json_with_one_key(url: str) -> None:
    for path, status in [
        ("/v2/models/nope", 404),
        ("/v2/models/nope/ready", 404),
        ("/v2/models/squeezenet/versions/7", 404),
        ("/nothing/here", 404),
    ]:
        answer = httpx.get(url + path)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
    answer = httpx.post(f"{url}/v2/models/squeezenet/infer", content=b"nonsense")
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    too_large = httpx.post(f"{url}/v2/models/squeezenet/infer", content=bytes(9 * 2**20))
    assert too_large.status_code == 413
    assert "binary" in too_large.json()["error"]
