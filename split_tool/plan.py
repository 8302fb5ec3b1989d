"""The split plan file ``plan.json``: the contract between the split tool and the server.

A plan folder holds ``plan.json``, ``model.onnx`` (the model as the user gave it) and the block files that the
plan names. Paths in a plan are relative to its folder.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import msgspec

from split_tool.errors import PlanInvalidError, PlanMismatchError, PlanNotFoundError

SCHEMA_VERSION = 1
PLAN_FILE = "plan.json"
WHOLE_MODEL_FILE = "model.onnx"


class TensorSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Name and type of a value that enters or leaves a model or crosses a cut.

    Attributes:
        name: Name in the graph.
        dtype: Element type as ONNX spells it in lower case: ``float32``, ``int64``, ``bfloat16``, ``string`` ...
        shape: One entry per axis: an int, a symbol's name, or None for an unnamed dynamic axis. None as a
            whole where not even the rank is known.
        kind: Sequences and optionals carry values of ``dtype`` and are no tensors.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    kind: Literal["tensor", "sequence", "optional"] = "tensor"


class Cut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place in topological order with the values alive there.

    Attributes:
        position: Number of nodes before the cut, in the graph that was cut.
        tensors: What crosses. Shapes are those seen while measuring.
        crossing_bytes: Their total size while measuring; None where it was not measured.
    """

    position: int
    tensors: tuple[TensorSpec, ...]
    crossing_bytes: int | None


class Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One block: a contiguous part of the model between two cuts.

    Attributes:
        file: Path of its ONNX file, relative to the plan folder, with forward slashes.
        sha256: Hash of the file.
        inputs: Names the block reads: model inputs and crossing tensors.
        outputs: Names the block gives: crossing tensors and model outputs.
        num_nodes: Nodes in the block.
        time_ms: Median time of the block alone, in milliseconds.
        file_bytes: Size of the block file.
    """

    file: str
    sha256: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    num_nodes: int
    time_ms: float
    file_bytes: int


class SlicedOperator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator that runs in several parts, so that cuts can lie between them.

    Attributes:
        output: Name of the value it gives.
        op_type: Its type in the graph that was cut.
        axis: What each part has its share of: output ``channels``, output ``columns``, ``rows`` of an image, or the
            operators of the ``branches`` of an If.
        num_slices: Number of parts.
    """

    output: str
    op_type: str
    axis: Literal["channels", "columns", "rows", "branches"]
    num_slices: int


class TradeOff(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a number of blocks gives: measured for the number that was made, estimated from that for the others.

    Attributes:
        blocks: Number of blocks.
        longest_ms: The longest of them.
        overhead: What the chain takes longer than the whole model, as a share of it.
    """

    blocks: int
    longest_ms: float
    overhead: float


class MeasuredOn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Machine and runtime whose times stand in a plan.

    Attributes:
        provider: ONNX Runtime execution provider, for example ``CPUExecutionProvider``.
        runtime: Name and version, for example ``onnxruntime 1.31.1``.
        num_threads: Intra-op threads of the sessions.
        processor: Name of the processor or GPU.
        processor_features: Instruction sets that decide which kernels run, sorted: ``avx2``, ``avx512f`` ...
        system: Operating system and machine architecture.
        measured_at: UTC time, ISO 8601.
    """

    provider: str
    runtime: str
    num_threads: int
    processor: str
    processor_features: tuple[str, ...]
    system: str
    measured_at: str


class Tolerance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``|chain - whole| <= atol + rtol * |whole|`` allows for one dtype; both 0 means bit-identical."""

    dtype: str
    rtol: float
    atol: float


class Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the chain of blocks was compared with the whole model.

    Attributes:
        verdict: ``bit-identical``, or ``within-tolerance``.
        num_samples: Random inputs compared.
        seed: Seed of the first of them.
        max_abs_difference: Largest absolute difference over all outputs; 0.0 if bit-identical.
        max_rel_difference: The same relative to the whole model's value.
        tolerances: What was accepted, by output dtype.
        cause: Why it is not bit-identical; None if it is.
    """

    verdict: Literal["bit-identical", "within-tolerance"]
    num_samples: int
    seed: int
    max_abs_difference: float
    max_rel_difference: float
    tolerances: tuple[Tolerance, ...]
    cause: str | None


class SplitRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was asked of the split tool; a plan is up to date only for the same request.

    Attributes:
        blocks: Wanted number of blocks; None if not given.
        max_block_ms: Wanted longest block, in milliseconds; None if not given. With neither, the tool chooses.
        graph: Which graph to cut; ``auto`` takes the one that measures better.
        input_shapes: Shapes for measuring, by input name, where the user gave them.
    """

    blocks: int | None = None
    max_block_ms: float | None = None
    graph: Literal["auto", "optimised", "user"] = "auto"
    input_shapes: dict[str, tuple[int, ...]] = {}


class ExternalFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file with weights that ``model.onnx`` or a block refers to; path relative to the plan folder."""

    path: str
    sha256: str


class SplitPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The chosen cuts of one model, the block files, their measured times and the proof of equality.

    Attributes:
        schema_version: Version of this format; readers refuse others.
        model: Model name.
        source_sha256: Hash of the user's model file, copied to ``model.onnx`` in the plan folder.
        inputs: What the model takes, in graph order, without initializers that are listed as inputs.
        outputs: What the model gives, in graph order.
        graph: Which graph was cut: the one ``optimised`` by ONNX Runtime for this device (block sessions then
            load with graph optimisation off), or the ``user``'s.
        isolated_ms: Median time of the whole model alone on the device, in milliseconds.
        chain_ms: Median time of all blocks in a row, measured interleaved with ``isolated_ms``.
        blocks: In run order.
        cuts: ``cuts[i]`` lies between ``blocks[i]`` and ``blocks[i + 1]``.
        measured_on: Where the times were measured.
        proof: Chain equals whole.
        notes: Plain sentences for people: bounds that no cut gets below, weights stored twice, a busy machine.
        request: What was asked for.
        external_files: Weights kept outside the ONNX files; empty for most models.
        sliced: Operators that run in several parts.
        trade_off: What other numbers of blocks would give, ascending.
    """

    schema_version: int
    model: str
    source_sha256: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    graph: Literal["optimised", "user"]
    isolated_ms: float
    chain_ms: float
    blocks: tuple[Block, ...]
    cuts: tuple[Cut, ...]
    measured_on: MeasuredOn
    proof: Proof
    notes: tuple[str, ...] = ()
    request: SplitRequest = SplitRequest()
    external_files: tuple[ExternalFile, ...] = ()
    sliced: tuple[SlicedOperator, ...] = ()
    trade_off: tuple[TradeOff, ...] = ()

    def save(self, folder: Path) -> None:
        """Write ``plan.json`` into ``folder``; the block files are there already."""
        encoded = msgspec.json.format(msgspec.json.encode(self), indent=2)
        (folder / PLAN_FILE).write_bytes(encoded + b"\n")

    @classmethod
    def load(cls, folder: Path | str) -> SplitPlan:
        """The plan in ``folder``; its files are not read (see ``check_files``).

        Args:
            folder: A folder that ``split`` has written.

        Raises:
            PlanNotFoundError: If there is no ``plan.json``.
            PlanInvalidError: If it is no plan of this schema version.
        """
        path = Path(folder) / PLAN_FILE
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise PlanNotFoundError(
                f"no split plan at {path}: make it with 'python -m split_tool split MODEL.onnx --out {folder}'"
            ) from error
        try:
            version = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).get("schema_version")
            if version is None or bytes(version) != str(SCHEMA_VERSION).encode():
                found = bytes(version).decode() if version is not None else "none"
                raise PlanInvalidError(
                    f"{path} has schema version {found}, this program reads {SCHEMA_VERSION}: split the model again"
                )
            return msgspec.json.decode(raw, type=cls)
        except msgspec.DecodeError as error:
            raise PlanInvalidError(f"{path} is no split plan ({error}): split the model again") from error

    def check_files(self, folder: Path) -> None:
        """Compare the model file and every block file with the hashes in the plan; reads all of them once.

        Raises:
            PlanMismatchError: If a file is missing or has another content.
        """
        expected = {WHOLE_MODEL_FILE: self.source_sha256} | {block.file: block.sha256 for block in self.blocks}
        expected |= {file.path: file.sha256 for file in self.external_files}
        for name, sha256 in expected.items():
            path = folder / name
            if not path.is_file():
                raise PlanMismatchError(f"{path} is missing, the plan needs it: split the model again")
            if (found := sha256_of_file(path)) != sha256:
                raise PlanMismatchError(
                    f"{path} has changed since the plan was made (sha256 {found[:12]}, plan {sha256[:12]}): "
                    "split the model again"
                )


def sha256_of_file(path: Path) -> str:
    """SHA-256 of the file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
