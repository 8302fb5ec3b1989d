"""What the compiler process is asked, and what it answers: one JSON object a line."""

from __future__ import annotations

from typing import Literal

import msgspec

Algorithm = Literal["direct", "winograd"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Compile one block.

    Attributes:
        file: Path of the ONNX file.
        folder: Where the result goes.
        target: Name in ``targets.TARGETS``.
        shapes: Shape of every input.
        outputs: Names of the block's outputs, in order.
        algorithms: Chosen algorithm by convolution (see ``convolutions.key_of``).
        follows_rule: Other convolutions follow the target's rule; else they are direct.
        pads_channels: Make channels divisible by 4 with zero weights where the target uses textures.
    """

    file: str
    folder: str
    target: str
    shapes: dict[str, tuple[int, ...]]
    outputs: tuple[str, ...]
    algorithms: dict[str, Algorithm] = {}
    follows_rule: bool = True
    pads_channels: bool = True


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a job, beside the block's files.

    Attributes:
        error: Why there is no block; None if there is one.
        compile_s: Time it took.
        winograd: Convolutions computed by the Winograd algorithm, by key.
        eligible: Convolutions that it could compute.
    """

    error: str | None = None
    compile_s: float = 0.0
    winograd: tuple[str, ...] = ()
    eligible: tuple[str, ...] = ()
