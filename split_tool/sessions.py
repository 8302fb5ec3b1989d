"""ONNX Runtime sessions of the split tool: options, errors in one line, and the graph after optimisation."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import onnxruntime as ort
from onnx import ModelProto, ValueInfoProto

from split_tool.errors import ModelRefusedError, one_line
from split_tool.source import Source

OPTIMISED_FILE = "optimised.onnx"
OPTIMISED_DATA_FILE = "optimised.data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Where sessions run.

    Attributes:
        provider: ONNX Runtime execution provider.
        num_threads: Threads inside an operator; operators run one after another.
    """

    provider: str = "CPUExecutionProvider"
    num_threads: int = 1

    @property
    def clock(self) -> Callable[[], float]:
        """The clock to measure with, in seconds.

        One thread on the processor is measured by the time it had the processor: the same as by the wall clock on a
        quiet machine, and on a busy one without the turns of others. Everything else is measured by the wall clock.
        """
        is_alone = self.provider == "CPUExecutionProvider" and self.num_threads == 1 and sys.platform == "linux"
        return time.thread_time if is_alone else time.perf_counter


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A graph that is cut: nodes and types in ``model``, external weights in ``folder``.

    Attributes:
        model: The graph; large weights may be references.
        folder: Folder that the references are relative to.
        is_optimised: ONNX Runtime has optimised it already, so its parts load with optimisation off.
    """

    model: ModelProto
    folder: Path
    is_optimised: bool


def session_options(device: Device, *, optimise: bool, shares_arena: bool = False) -> ort.SessionOptions:
    """Options every session of the tool has: no spinning threads, no log lines.

    Args:
        device: Where it runs.
        optimise: With all graph optimisations, or none.
        shares_arena: Take working memory from one arena for all such sessions of the process. Blocks run one after
            another: what one has just freed, still in the cache, is what the next one gets.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = device.num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    if shares_arena and device.provider == "CPUExecutionProvider":
        _register_arena()
        options.add_session_config_entry("session.use_env_allocators", "1")
    return options


@cache
def _register_arena() -> None:
    """Give the process one arena of CPU memory."""
    where = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(where, None)


def open_session(
    model: Path | ModelProto,
    device: Device,
    options: ort.SessionOptions,
    *,
    external_folder: Path | None = None,
) -> ort.InferenceSession:
    """A session of a model file, or of a model in memory whose references lie in ``external_folder``.

    Raises:
        ModelRefusedError: If ONNX Runtime cannot load it; the message holds its reason in one line.
    """
    if external_folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(external_folder))
    try:
        content = str(model) if isinstance(model, Path) else model.SerializeToString()
        return ort.InferenceSession(content, options, providers=[device.provider])
    except Exception as error:  # the runtime raises a dozen unrelated classes, ValueError and RuntimeError among them
        raise ModelRefusedError(f"ONNX Runtime {ort.__version__} cannot load the model: {one_line(error)}") from error


def run_session(
    session: ort.InferenceSession, names: Sequence[str], feeds: Mapping[str, ort.OrtValue]
) -> dict[str, ort.OrtValue]:
    """The values named, made with those of ``feeds`` that the session takes.

    Raises:
        ModelRefusedError: If ONNX Runtime cannot run it; the message holds its reason in one line.
    """
    taken = {value.name: feeds[value.name] for value in session.get_inputs() if value.name in feeds}
    try:
        return dict(zip(names, session.run_with_ort_values(list(names), taken), strict=True))
    except Exception as error:  # the runtime raises several unrelated classes
        raise ModelRefusedError(f"ONNX Runtime cannot run the model: {one_line(error)}") from error


def user_target(source: Source) -> Target:
    """The user's graph as the thing to cut."""
    return Target(model=source.model, folder=source.folder, is_optimised=False)


def optimised_target(source: Source, device: Device, work: Path) -> Target:
    """The graph after all optimisations of ONNX Runtime for this device, fusion and memory layout included.

    Args:
        source: The model.
        device: Where it will run; the layout belongs to this processor.
        work: Folder for the optimised file and its weights.

    Raises:
        ModelRefusedError: If ONNX Runtime cannot load the model, or cannot write what it optimised.
    """
    options = session_options(device, optimise=True)
    options.optimized_model_filepath = str(work / OPTIMISED_FILE)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", OPTIMISED_DATA_FILE)
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    open_session(source.model, device, options, external_folder=source.folder)
    model = ModelProto()
    model.ParseFromString((work / OPTIMISED_FILE).read_bytes())
    model.ir_version = max(model.ir_version, source.model.ir_version)
    del model.graph.input[:]
    model.graph.input.extend(source.model.graph.input)
    del model.metadata_props[:]
    model.metadata_props.extend(source.model.metadata_props)
    return Target(model=model, folder=work, is_optimised=True)


def probing_model(target: Target, names: Sequence[str]) -> ModelProto:
    """A copy of the target that also gives the values ``names``; the runtime finds their types by itself."""
    model = ModelProto()
    model.CopyFrom(target.model)
    del model.graph.value_info[:]
    present = {value.name for value in model.graph.output}
    model.graph.output.extend(ValueInfoProto(name=name) for name in names if name not in present)
    return model
