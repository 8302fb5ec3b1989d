"""The built-in models: real architectures with constant weights that come with the ``onnx`` package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from split_tool.errors import ModelRefusedError, OptionError
from split_tool.plan import SplitPlan, SplitRequest
from split_tool.progress import Report
from split_tool.sessions import Device
from split_tool.source import read_source
from split_tool.splitting import split, up_to_date

DEFAULT_MODELS = ("squeezenet", "shufflenet", "inception_v1", "resnet50", "vgg19")
MORE_MODELS = ("bvlc_alexnet", "densenet121", "inception_v2", "zfnet512")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooResult:
    """What happened to one model.

    Attributes:
        plan: Its plan.
        folder: Where it lies.
        is_new: It was made now; otherwise it was up to date.
    """

    plan: SplitPlan
    folder: Path
    is_new: bool


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


def make_zoo(
    out: Path,
    names: Sequence[str],
    *,
    num_threads: int,
    force: bool,
    max_block_ms: float | None = None,
    reporter: Callable[[str], Report],
    on_done: Callable[[ZooResult], None],
) -> list[ZooResult]:
    """Split zoo models into ``out``, one folder each, leaving alone what is up to date and replacing what is not.

    Args:
        out: Folder for all of them.
        names: Models.
        num_threads: Intra-op threads to measure with.
        force: Split again even what is up to date.
        max_block_ms: Wanted longest block of every model; without it the tool chooses.
        reporter: Gives the progress report for a model.
        on_done: Called after each.

    Raises:
        OptionError: If a name is unknown; nothing is done then.
    """
    paths = {name: model_path(name) for name in names}
    request = SplitRequest(max_block_ms=max_block_ms)
    results: list[ZooResult] = []
    for name, path in paths.items():
        folder = out / name
        device = Device(num_threads=num_threads)
        plan = None if force else up_to_date(read_source(path), folder, request, device, name)
        is_new = plan is None
        if plan is None:
            plan = split(
                path,
                folder,
                name=name,
                max_block_ms=max_block_ms,
                num_threads=num_threads,
                force=True,
                budget_s=2.0,
                report=reporter(name),
            )
        results.append(ZooResult(plan=plan, folder=folder, is_new=is_new))
        on_done(results[-1])
    return results
