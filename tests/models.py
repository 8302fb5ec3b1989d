"""Split models for tests, made once and kept in ``out/test-models`` until their sources or the runtime change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

ROOT = Path(__file__).parent.parent
TEST_MODELS = ROOT / "out" / "test-models"


def light_model(name: str) -> Path:
    """A real architecture with constant weights that the onnx wheel ships."""
    return Path(onnx.__file__).parent / "backend/test/data/light" / f"light_{name}.onnx"


def split_light_models(*names: str) -> Path:
    """The repository with at least these models, split as the zoo command splits them."""
    subprocess.run(
        [sys.executable, "-m", "split_tool", "zoo", "--out", str(TEST_MODELS), "--only", ",".join(names)], check=True
    )
    return TEST_MODELS


def whole_model_outputs(name: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What plain onnxruntime gives for the user's file on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(light_model(name), options, providers=["CPUExecutionProvider"])
    outputs = [value.name for value in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, inputs), strict=True))


def random_input(name: str, seed: int = 0) -> dict[str, np.ndarray]:
    """A seeded random picture for one of the light models."""
    session = ort.InferenceSession(light_model(name), providers=["CPUExecutionProvider"])
    (value,) = session.get_inputs()
    return {value.name: np.random.default_rng(seed).random(value.shape, dtype=np.float32)}
