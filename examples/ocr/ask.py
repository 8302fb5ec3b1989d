"""Draws a picture with text, or takes yours, and prints what the server reads in it.

python -m examples.ocr.ask [PICTURE] [--url http://127.0.0.1:8000]
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import httpx
from PIL import Image, ImageDraw, ImageFont

LINES = ("Short requests first", "block by block 2026")


def draw(lines: tuple[str, ...] = LINES, *, height: int = 192) -> bytes:
    """A PNG, 640 pixels wide, with the lines, black on white."""
    picture = Image.new("RGB", (640, height), "white")
    pen = ImageDraw.Draw(picture)
    for index, line in enumerate(lines):
        pen.text((30, 30 + 80 * index), line, fill="black", font=ImageFont.load_default(44))
    encoded = io.BytesIO()
    picture.save(encoded, "png")
    return encoded.getvalue()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="examples.ocr.ask", description="What does the picture say?")
    parser.add_argument("picture", nargs="?", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    options = parser.parse_args()
    picture = draw() if options.picture is None else options.picture.read_bytes()
    answer = httpx.post(f"{options.url}/read", content=picture, timeout=60)
    answer.raise_for_status()
    for line in answer.json():
        print(f"{line['text']}   {line['box']}")


if __name__ == "__main__":
    main()
