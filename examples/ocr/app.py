"""A deployment of its own that composes two models: text detection, then recognition of each line that was found."""

import asyncio
import io
from pathlib import Path
from typing import Any

import onnxruntime as ort
from fastapi import FastAPI, Request
from PIL import Image
from ray import serve
from ray.serve import Application

from examples.ocr.text import Box, decode_text, detection_input, recognition_input, text_boxes
from serve_app.client.handles import AsyncHandleClient
from serve_app.http import install_errors

TIMEOUT_S = 30.0

api = FastAPI()
install_errors(api)  # what a model refuses has the same status here


@serve.deployment(ray_actor_options={"num_cpus": 0}, max_ongoing_requests=100)
@serve.ingress(api)
class Reader:
    """Reads the text in a picture."""

    def __init__(self, repository: str) -> None:
        """``repository`` has the recogniser, whose file knows its characters."""
        self._models = AsyncHandleClient()
        session = ort.InferenceSession(Path(repository) / "ppocr_rec" / "model.onnx")
        self._characters = session.get_modelmeta().custom_metadata_map["character"].splitlines()

    @api.post("/")
    async def read(self, request: Request) -> list[dict[str, Any]]:
        """The lines of text in the picture that is the body, and where they are."""
        picture = Image.open(io.BytesIO(await request.body())).convert("RGB")
        found = await self._models.infer("ppocr_det", {"x": detection_input(picture)}, timeout_s=TIMEOUT_S)
        (probability,) = found.values()
        boxes = text_boxes(probability, picture)
        # All lines at once; if one fails, or the client goes away, the others leave the device too.
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._read_line(picture, box)) for box in boxes]
        return [
            {"text": task.result(), "box": [box.left, box.top, box.right, box.bottom]}
            for task, box in zip(tasks, boxes, strict=True)
        ]

    async def _read_line(self, picture: Image.Image, box: Box) -> str:
        line = recognition_input(picture, box)
        # The detector of the next picture may overtake: lines of one picture are many.
        outputs = await self._models.infer("ppocr_rec", {"x": line}, priority=2, timeout_s=TIMEOUT_S)
        (probabilities,) = outputs.values()
        return decode_text(probabilities, self._characters)


def reader(args: dict[str, str]) -> Application:
    """The application builder: ``import_path: examples.ocr.app:reader``."""
    application: Application = Reader.bind(args["repository"])  # type: ignore[attr-defined]
    return application
