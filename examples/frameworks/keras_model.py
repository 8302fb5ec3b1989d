"""A Keras model: exported by tf2onnx, split in two blocks, compared with Keras.

    python -m examples.frameworks.keras_model        into out/frameworks; needs the extra ``tensorflow``

``tf2onnx.convert.from_keras`` fails on models of Keras 3 (tf2onnx 1.17), so the model is passed as a function.
"""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
import tf2onnx

from examples.frameworks.two_blocks import Exported, FloatArray, main

IMAGE_SHAPE = (16, 16, 3)  # rows, columns, channels, as Keras has them


def build() -> keras.Model:
    """A small classifier of images with weights from a seed, the statistics of its normalisation too."""
    keras.utils.set_random_seed(0)
    layers = keras.layers

    def around(value: float) -> keras.initializers.Initializer:
        return keras.initializers.RandomUniform(value - 0.5, value + 0.5)

    return keras.Sequential(
        [
            keras.Input(IMAGE_SHAPE),
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(moving_mean_initializer=around(0), moving_variance_initializer=around(1)),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, activation="softmax"),
        ]
    )


def sample_images(num_images: int) -> FloatArray:
    """Random images, float32, shape (num_images, rows, columns, channels)."""
    return np.random.default_rng(1).standard_normal((num_images, *IMAGE_SHAPE), dtype=np.float32)


def export(folder: Path) -> Exported:
    """Writes ``keras_model.onnx``; its input has the axes of ONNX, (batch, channels, rows, columns)."""
    model = build()
    path = folder / "keras_model.onnx"
    tf2onnx.convert.from_function(
        tf.function(lambda image: model(image, training=False)),
        input_signature=[tf.TensorSpec((None, *IMAGE_SHAPE), tf.float32, name="image")],
        inputs_as_nchw=["image"],
        opset=18,
        output_path=str(path),
    )
    images = sample_images(2)
    output = np.asarray(model(images, training=False))
    return Exported(model=path, sample=np.ascontiguousarray(images.transpose(0, 3, 1, 2)), output=output)


if __name__ == "__main__":
    main("Keras", export)
