"""From a picture to the detector's input, from its map to boxes, from a crop to the recogniser's input, to text.

For horizontal text, without a computer vision library; the models are PP-OCRv4's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Array = npt.NDArray[Any]

_GRID = 32  # the detector halves its input five times
_IS_TEXT = 0.3
_MIN_SCORE = 0.6
_MIN_SIDE = 3
_GROWTH = 1.6  # the detector marks the core of a line: a box grows by this times area / perimeter
_LINE_HEIGHT = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle in a picture, in pixels; ``right`` and ``bottom`` are outside."""

    left: int
    top: int
    right: int
    bottom: int


def detection_input(picture: Image.Image) -> Array:
    """The picture with its sides rounded to multiples of 32: float32, shape (1, 3, height, width)."""
    width, height = (max(_GRID, round(side / _GRID) * _GRID) for side in picture.size)
    return _normalised(picture.resize((width, height)))


def text_boxes(probability: Array, picture: Image.Image) -> list[Box]:
    """Where lines of text are, from top to bottom and left to right.

    Args:
        probability: What the detector gives: float32, shape (1, 1, height, width).
        picture: The picture that ``detection_input`` was made of.
    """
    density: Array = probability[0, 0]
    boxes = []
    for rows, columns in _regions(density > _IS_TEXT):
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        if min(height, width) < _MIN_SIDE or density[rows, columns].mean() < _MIN_SCORE:
            continue
        growth = _GROWTH * height * width / (2 * (height + width))
        scale_x, scale_y = picture.width / density.shape[1], picture.height / density.shape[0]
        boxes.append(
            Box(
                left=max(0, round((columns.min() - growth) * scale_x)),
                top=max(0, round((rows.min() - growth) * scale_y)),
                right=min(picture.width, round((columns.max() + 1 + growth) * scale_x)),
                bottom=min(picture.height, round((rows.max() + 1 + growth) * scale_y)),
            )
        )
    return sorted(boxes, key=lambda box: (box.top, box.left))


def recognition_input(picture: Image.Image, box: Box) -> Array:
    """The line of text in the box, 48 pixels high: float32, shape (1, 3, 48, width)."""
    line = picture.crop((box.left, box.top, box.right, box.bottom))
    return _normalised(line.resize((max(1, round(line.width * _LINE_HEIGHT / line.height)), _LINE_HEIGHT)))


def decode_text(probabilities: Array, characters: list[str]) -> str:
    """The text that the recogniser's answer, float32 of shape (1, steps, classes), most probably means.

    Class 0 is no character, the last one a space; a character that lasts several steps is one.
    """
    classes = probabilities[0].argmax(axis=1)
    starts = np.flatnonzero(np.diff(classes, prepend=0))
    alphabet = ["", *characters, " "]
    return "".join(alphabet[classes[step]] for step in starts)


def _normalised(picture: Image.Image) -> Array:
    """Blue, green, red, from -1 to 1: float32, shape (1, 3, height, width)."""
    pixels = np.asarray(picture.convert("RGB"), np.float32)[:, :, ::-1]
    return np.ascontiguousarray((pixels / 127.5 - 1).transpose(2, 0, 1)[None])


def _regions(mask: Array) -> list[tuple[Array, Array]]:
    """Rows and columns of the pixels of each connected region of the mask."""
    left = set(zip(*(axis.tolist() for axis in np.nonzero(mask)), strict=True))
    regions = []
    while left:
        region = [left.pop()]
        for row, column in region:  # grows while it is walked
            neighbours = {(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)} & left
            left -= neighbours
            region += neighbours
        rows, columns = np.array(region).T
        regions.append((rows, columns))
    return regions
