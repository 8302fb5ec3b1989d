"""What is sent: one prepared request per model, from the server's own metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.cbook
import numpy as np
import numpy.typing as npt
from PIL import Image

from benchmarks.load.errors import LoadError
from serve_app.protocol.client_codec import encode_infer_request
from serve_app.protocol.datatypes import datatype_named

Arrays = dict[str, npt.NDArray[Any]]

# Length of an axis that the model leaves open: one sample, and a size that convolutions and texts can take.
OPEN_BATCH = 1
OPEN_IMAGE_AXIS = 224
OPEN_AXIS = 16

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """A request for one model, ready to be sent any number of times.

    Attributes:
        path: Path of the URL.
        body: JSON followed by the binary tensors.
        header_length: Bytes of JSON.
    """

    path: str
    body: bytes
    header_length: int


def prepare_arrays(metadata: Mapping[str, Any], *, seed: int) -> dict[str, Arrays]:
    """Inputs by name for each model; one model that takes a picture gets a real one, see ``picture_model``.

    Args:
        metadata: Model name -> answer of the server to ``GET /v2/models/MODEL``.
        seed: For the random data.

    Raises:
        LoadError: If a model takes a datatype that the protocol does not have.
    """
    with_picture = picture_model(metadata)
    arrays: dict[str, Arrays] = {}
    for model, answer in metadata.items():
        rng = np.random.default_rng([seed, *model.encode()])
        arrays[model] = {}
        for entry in answer["inputs"]:
            shape = _closed_shape(entry["shape"])
            arrays[model][entry["name"]] = (
                picture(height=shape[2], width=shape[3])
                if model == with_picture
                else _random_array(model, entry["name"], entry["datatype"], shape, rng)
            )
    return arrays


def picture_model(metadata: Mapping[str, Any]) -> str | None:
    """The first model that takes a picture and nothing else; None if there is none."""
    return next(
        (
            model
            for model, answer in metadata.items()
            if len(answer["inputs"]) == 1 and _takes_picture(answer["inputs"][0])
        ),
        None,
    )


def prepare_requests(arrays: Mapping[str, Arrays]) -> dict[str, PreparedRequest]:
    """One request per model that asks for all outputs in binary form."""
    requests = {}
    for model, inputs in arrays.items():
        encoded = encode_infer_request(inputs)
        requests[model] = PreparedRequest(
            path=f"/v2/models/{model}/infer", body=encoded.body, header_length=encoded.header_length
        )
    return requests


def picture(*, height: int, width: int) -> npt.NDArray[np.float32]:
    """The portrait that matplotlib ships, as networks trained on ImageNet take it.

    Resized so that it covers the size, cropped to the centre, scaled to 0..1, normalised per channel.

    Returns:
        float32, shape (1, 3, height, width).
    """
    with Image.open(str(matplotlib.cbook.get_sample_data("grace_hopper.jpg", asfileobj=False))) as image:
        photo = image.convert("RGB")
    scale = max(width / photo.width, height / photo.height)
    photo = photo.resize((max(width, round(photo.width * scale)), max(height, round(photo.height * scale))))
    left, top = (photo.width - width) // 2, (photo.height - height) // 2
    pixels = np.asarray(photo.crop((left, top, left + width, top + height)), dtype=np.float32) / 255
    normalised = (pixels - np.array(IMAGENET_MEAN, dtype=np.float32)) / np.array(IMAGENET_STD, dtype=np.float32)
    return np.ascontiguousarray(normalised.transpose(2, 0, 1)[np.newaxis])


def _takes_picture(entry: Mapping[str, Any]) -> bool:
    shape = entry["shape"]
    return (
        entry["datatype"] == "FP32"
        and len(shape) == 4
        and shape[0] in (1, -1)
        and shape[1] == 3
        and all(axis == -1 or axis >= 32 for axis in shape[2:])
    )


def _closed_shape(shape: Sequence[int]) -> tuple[int, ...]:
    open_axis = OPEN_IMAGE_AXIS if len(shape) == 4 else OPEN_AXIS
    return tuple(
        length if length >= 0 else (OPEN_BATCH if axis == 0 else open_axis) for axis, length in enumerate(shape)
    )


def _random_array(
    model: str, name: str, datatype_name: str, shape: tuple[int, ...], rng: np.random.Generator
) -> npt.NDArray[Any]:
    """Normal floats; zeros and ones for everything else, which is in range of any embedding table."""
    datatype = datatype_named(datatype_name)
    if datatype is None:
        raise LoadError(f"model '{model}': input '{name}' has the datatype {datatype_name}, the protocol has no such")
    if datatype.family == "float":
        return rng.standard_normal(shape).astype(datatype.dtype)
    if datatype.family == "bytes":
        return np.full(shape, "text", dtype=object)
    return rng.integers(0, 2, size=shape).astype(datatype.dtype)
