"""The built-in models: real architectures with constant weights that come with the ``onnx`` package."""

from __future__ import annotations

from pathlib import Path

import onnx

from split_tool.errors import ModelRefusedError, OptionError

DEFAULT_MODELS = ("squeezenet", "shufflenet", "inception_v1", "resnet50", "vgg19")
MORE_MODELS = ("bvlc_alexnet", "densenet121", "inception_v2", "zfnet512")


def model_path(name: str) -> Path:
    """The file of a zoo model in the installed ``onnx`` package.

    Raises:
        OptionError: If there is no such model.
        ModelRefusedError: If the installed package comes without its data.
    """
    if name not in (*DEFAULT_MODELS, *MORE_MODELS):
        raise OptionError(f"no zoo model {name!r}: there are {', '.join((*DEFAULT_MODELS, *MORE_MODELS))}")
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"
    if not path.is_file():
        raise ModelRefusedError(f"{path} is missing: install the onnx package with its test data (pip install onnx)")
    return path
