"""A TFLite model: converted by tf2onnx, split in two blocks, compared with TFLite's interpreter.

    python -m examples.frameworks.tflite_model       into out/frameworks; needs the extra ``tensorflow``

The ``.tflite`` file is made of the model of ``keras_model``; its input keeps TensorFlow's axes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf
import tf2onnx

from examples.frameworks.keras_model import build, sample_images
from examples.frameworks.two_blocks import Exported, FloatArray, main


def export(folder: Path) -> Exported:
    """Writes ``tflite_model.tflite`` and ``tflite_model.onnx``."""
    lite, path = folder / "tflite_model.tflite", folder / "tflite_model.onnx"
    lite.write_bytes(tf.lite.TFLiteConverter.from_keras_model(build()).convert())
    tf2onnx.convert.from_tflite(str(lite), opset=18, output_path=str(path))
    images = sample_images(1)
    return Exported(model=path, sample=images, output=_interpret(lite, images))


def _interpret(lite: Path, images: FloatArray) -> FloatArray:
    interpreter = tf.lite.Interpreter(model_path=str(lite))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], images)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


if __name__ == "__main__":
    main("TFLite", export)
