"""What the compiler leaves for the runner: ``compiled.json`` for a split plan, ``launches.json`` for each block.

``PLAN_FOLDER/compiled/TARGET/`` holds ``compiled.json``, ``check.npz`` and a folder per block that is compiled, with
``launches.json``, ``kernels.cl`` and ``weights.npz``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import numpy as np

from opencl_runner.errors import CompiledPlanInvalidError, CompiledPlanNotFoundError

SCHEMA_VERSION = 1
COMPILED_FOLDER = "compiled"
COMPILED_FILE = "compiled.json"
CHECK_FILE = "check.npz"
PROGRAMS_FOLDER = "programs"
LAUNCHES_FILE = "launches.json"
KERNELS_FILE = "kernels.cl"
WEIGHTS_FILE = "weights.npz"

Server = Literal["texture", "buffers", "onnxruntime"]
Content = TypeVar("Content")


class Memory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One piece of device memory.

    Attributes:
        shape: Elements per axis; the last axis of a texture is its 4 channels.
        dtype: Element type as numpy spells it.
        scope: ``global`` is a plain buffer; ``global.texture``, ``global.texture-weight`` and ``global.texture-nhwc``
            are arrays of RGBA images that differ in which axes become width, height and layers.
    """

    shape: tuple[int, ...]
    dtype: str
    scope: str = "global"

    @property
    def num_bytes(self) -> int:
        """Size of its elements."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Width, height and number of layers of a texture, in texels.

        The compiler's rule: the axis before which the shape is cut depends on the scope; what follows it (but for the
        channels) is the width, the axis before it the height, the rest layers.
        """
        rank = len(self.shape)
        axis = {"global.texture": rank - 2, "global.texture-weight": 1, "global.texture-nhwc": 2}[self.scope]
        return math.prod(self.shape[axis:-1]), self.shape[axis - 1], math.prod(self.shape[: axis - 1])


class Launch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="launch"):
    """One kernel run.

    Attributes:
        kernel: Its name in ``kernels.cl``.
        arguments: Numbers of the pieces of memory it takes, in order.
        groups: Work groups along x, y and z.
        threads: Work items of a group along x, y and z.
    """

    kernel: str
    arguments: tuple[int, ...]
    groups: tuple[int, int, int]
    threads: tuple[int, int, int]


class Copy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="copy"):
    """A copy between two pieces of memory of the same number of elements, textures or plain."""

    source: int
    target: int


class Launches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that one block does, as data.

    Attributes:
        memory: Every piece of memory, by number; intermediates that are never alive together share one.
        inputs: Numbers of what the block reads, by the tensor's name.
        outputs: The same for what it gives; they are plain buffers.
        constants: Numbers of weights; each is the array of that number in ``weights.npz``.
        steps: In run order.
    """

    memory: tuple[Memory, ...]
    inputs: dict[str, int]
    outputs: dict[str, int]
    constants: tuple[int, ...]
    steps: tuple[Launch | Copy, ...]

    @property
    def num_launches(self) -> int:
        """Kernel runs of one run of the block."""
        return sum(isinstance(step, Launch) for step in self.steps)

    @property
    def num_textures(self) -> int:
        """Pieces of memory that are images."""
        return sum("texture" in piece.scope for piece in self.memory)

    @classmethod
    def load(cls, folder: Path) -> Launches:
        """The launches of the block in ``folder``.

        Raises:
            CompiledPlanInvalidError: If the file is missing or none.
        """
        return _decode(folder / LAUNCHES_FILE, cls)


class CompiledBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one block of the split plan is served.

    Attributes:
        served_by: Kernels on textures, kernels on plain buffers, or ONNX Runtime on the CPU.
        folder: Folder of the block, relative to that of ``compiled.json``; None if ONNX Runtime serves it.
        reasons: What was tried before and why it does not serve; empty for the first choice.
        max_rel_error: Largest difference to ONNX Runtime over the largest value; None if no device was there to check.
        num_launches: Kernel runs of one run; 0 for ONNX Runtime.
        num_textures: Pieces of memory that are images.
        compile_s: Time the compiler took, 0.0 if the block came from the cache.
        winograd: Convolutions computed by the Winograd algorithm.
    """

    served_by: Server
    folder: str | None
    reasons: tuple[str, ...] = ()
    max_rel_error: float | None = None
    num_launches: int = 0
    num_textures: int = 0
    compile_s: float = 0.0
    winograd: int = 0


class CompiledPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All blocks of a split plan, compiled for one target.

    Attributes:
        schema_version: Version of this format; readers refuse others.
        target: ``opencl``, ``mali``, ``adreno`` or ``adreno-texture``.
        compiler: Names and versions of what made it.
        block_sha256: Hashes of the block files it was made from, in order.
        input_shapes: The only shapes that it takes, by the model's inputs.
        checked_on: Platform, device and driver that every block was checked on; None: no device was there.
        blocks: One for each block of the split plan.
        measured_ms: Times of convolutions by target and shape, and by algorithm, where they decided on the algorithm.
    """

    schema_version: int
    target: str
    compiler: str
    block_sha256: tuple[str, ...]
    input_shapes: dict[str, tuple[int, ...]]
    checked_on: str | None
    blocks: tuple[CompiledBlock, ...]
    measured_ms: dict[str, dict[str, float]] = {}

    def save(self, folder: Path) -> None:
        """Write ``compiled.json``."""
        (folder / COMPILED_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")

    @classmethod
    def load(cls, folder: Path) -> CompiledPlan:
        """What ``folder`` holds.

        Raises:
            CompiledPlanInvalidError: If the file is missing, none, or of another schema version.
        """
        plan = _decode(folder / COMPILED_FILE, cls)
        if plan.schema_version != SCHEMA_VERSION:
            raise CompiledPlanInvalidError(
                f"{folder} has schema version {plan.schema_version}, this program reads {SCHEMA_VERSION}: compile again"
            )
        return plan


def find_compiled(plan_folder: Path, target: str | None) -> Path:
    """The folder of the blocks compiled for ``target``, or of the only target there is.

    Raises:
        CompiledPlanNotFoundError: If there is none, or several and none was asked for.
    """
    found = sorted(path.parent for path in (plan_folder / COMPILED_FOLDER).glob(f"*/{COMPILED_FILE}"))
    chosen = [folder for folder in found if target in (None, folder.name)]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(folder.name for folder in found) or "none"
    advice = (
        "say which one"
        if len(chosen) > 1
        else f"make it with 'python -m split_tool compile {plan_folder} --target {target or 'opencl'}'"
    )
    raise CompiledPlanNotFoundError(
        f"{plan_folder} has no compiled blocks for target {target or '(any)'} (compiled: {names}): {advice}"
    )


def _decode(path: Path, kind: type[Content]) -> Content:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise CompiledPlanInvalidError(f"{path} cannot be read ({error}): compile the plan again") from error
