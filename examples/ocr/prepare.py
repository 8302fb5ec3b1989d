"""Gets the two models out of the package that ships them, and splits them.

    python -m examples.ocr.prepare        into out/ocr; nothing to do where they are up to date

The package rapidocr-onnxruntime 1.4.4 (Apache-2.0) has PP-OCRv4's detector and recogniser as ONNX files; it is
downloaded, checked, and not installed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

from split_tool.splitting import split

FOLDER = Path("out/ocr")
_PACKAGE = "rapidocr-onnxruntime==1.4.4"
_WHEEL = "rapidocr_onnxruntime-1.4.4-py3-none-any.whl"
_SHA256 = "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"
_FILES = {"ppocr_det": "ch_PP-OCRv4_det_infer.onnx", "ppocr_rec": "ch_PP-OCRv4_rec_infer.onnx"}
_SHAPES = {"ppocr_det": (1, 3, 192, 640), "ppocr_rec": (1, 3, 48, 320)}
_NUM_BLOCKS = 8


class DownloadError(Exception):
    """The package cannot be had, or is not the one that was checked when this was written."""


def prepare(folder: Path = FOLDER) -> Path:
    """The repository with both models, split.

    Raises:
        DownloadError: If the package cannot be downloaded or has changed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / _WHEEL
    if not wheel.exists():
        _download(folder)
    if (found := hashlib.sha256(wheel.read_bytes()).hexdigest()) != _SHA256:
        raise DownloadError(f"{wheel} has the checksum {found}, expected is {_SHA256}: remove it and try again")
    for model, name in _FILES.items():
        path = folder / f"{model}.onnx"
        with zipfile.ZipFile(wheel) as archive:
            path.write_bytes(archive.read(f"rapidocr_onnxruntime/models/{name}"))
        split(path, folder / "models" / model, blocks=_NUM_BLOCKS, input_shapes={"x": _SHAPES[model]}, budget_s=0.5)
    return folder / "models"


def _download(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), _PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise DownloadError(f"{' '.join(command)} failed:\n{done.stderr}")


if __name__ == "__main__":
    print(f"ready: {prepare()}")
