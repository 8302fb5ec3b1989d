"""A PyTorch model: exported by torch.onnx, split in two blocks, compared with PyTorch.

python -m examples.frameworks.pytorch_model      into out/frameworks; needs the extra ``pytorch``
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from examples.frameworks.two_blocks import Exported, main


def build() -> nn.Module:
    """A small classifier of images with weights from a seed, the statistics of its normalisation too."""
    torch.manual_seed(0)
    normalisation = nn.BatchNorm2d(8)
    normalisation.running_mean = torch.randn(8)
    normalisation.running_var = torch.rand(8) + 0.5
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.ReLU(),
        normalisation,
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
        nn.Softmax(dim=1),
    )
    return model.eval()


def export(folder: Path) -> Exported:
    """Writes ``pytorch_model.onnx``, weights inside."""
    model = build()
    path = folder / "pytorch_model.onnx"
    images = torch.randn(2, 3, 16, 16)
    torch.onnx.export(
        model,
        (images,),
        str(path),
        dynamo=True,
        opset_version=18,
        input_names=["image"],
        output_names=["scores"],
        dynamic_shapes={"input": {0: torch.export.Dim("batch")}},  # the name that forward gives it
        external_data=False,
    )
    with torch.no_grad():
        output = model(images)
    return Exported(model=path, sample=images.numpy(), output=output.numpy())


if __name__ == "__main__":
    main("PyTorch", export)
