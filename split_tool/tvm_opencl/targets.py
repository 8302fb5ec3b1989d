"""What can be compiled for, and how each target wants its convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opencl_runner.plan import Server
from split_tool.errors import OptionError

CONVOLUTIONS = ("auto", "direct", "measure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One kind of device.

    Attributes:
        name: As on the command line.
        tvm: What TVM calls it.
        texture: Convolutions work on textures, in the layout NCHW4c.
        winograd_channels: From so many input and output channels on the Winograd algorithm is taken for convolutions
            of 3x3 where nobody has measured; None: never. It saves multiplications and costs memory traffic.
        winograd_pixels: The same for the pixels of the output.
    """

    name: str
    tvm: str | dict[str, Any]
    texture: bool = False
    winograd_channels: int | None = None
    winograd_pixels: int = 0

    @property
    def served_by(self) -> Server:
        """What serves a block that is compiled for it."""
        return "texture" if self.texture else "buffers"


TARGETS = {
    target.name: target
    for target in (
        Target(name="opencl", tvm={"kind": "opencl"}),
        Target(name="mali", tvm={"kind": "opencl", "device": "mali"}, winograd_channels=64, winograd_pixels=196),
        Target(name="adreno", tvm="qcom/adreno-opencl", winograd_channels=64, winograd_pixels=196),
        Target(name="adreno-texture", tvm="qcom/adreno-opencl-texture", texture=True),
    )
}

_INSTEAD = {"adreno-texture": "adreno"}


def ladder(name: str) -> list[Target]:
    """The target, and what to try instead for a block that does not work on it.

    Raises:
        OptionError: If there is no such target.
    """
    if name not in TARGETS:
        raise OptionError(f"--target {name}: choose one of {', '.join(TARGETS)}")
    return [TARGETS[name]] + ([TARGETS[_INSTEAD[name]]] if name in _INSTEAD else [])
