"""One model at work: loaded as its user would, with inputs that it accepts and the bench it is measured on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort

from split_tool.chain import feeds_to_ort
from split_tool.errors import OptionError, one_line
from split_tool.model_graph import cut_graph
from split_tool.plan import SplitRequest
from split_tool.progress import Report
from split_tool.samples import find_sampler
from split_tool.search import Bench
from split_tool.sessions import Device, open_session, session_options
from split_tool.source import Source
from split_tool.values import Feeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What splitting one model works with.

    Attributes:
        source: The model.
        device: Where it is measured.
        request: What the user wants.
        work: Folder for scratch files.
        whole: The model in one session, with default optimisation.
        bench: What every trial is measured with.
        samples: Inputs on which chain and whole model are compared; the first of them is measured with.
        seed: Seed of the first of them, where they are random.
    """

    source: Source
    device: Device
    request: SplitRequest
    work: Path
    whole: ort.InferenceSession
    bench: Bench
    samples: tuple[Feeds, ...]
    seed: int


def start_job(
    source: Source,
    device: Device,
    request: SplitRequest,
    given: Feeds | None,
    work: Path,
    *,
    num_samples: int,
    seed: int,
    budget_s: float,
    report: Report,
) -> Job:
    """Load the whole model as the user would, find inputs for it unless real ones are ``given``, set up the bench.

    Raises:
        ModelRefusedError: If the graph has a cycle, or ONNX Runtime cannot load it.
        OptionError: If ``given`` lacks an input, or the model does not accept it.
        InputsNotFoundError: If no generated input is accepted.
    """
    report("loading the whole model", 0.0)
    cut_graph(source.model)  # says where a cycle is, which the runtime does not
    whole = open_session(source.path, device, session_options(device, optimise=True))
    keep = list(dict.fromkeys(spec.name for spec in source.outputs))
    samples: list[Feeds]

    def accepts(feeds: Feeds) -> str | None:
        try:
            whole.run_with_ort_values(keep, feeds_to_ort(feeds, source.inputs))
        except Exception as error:  # the runtime raises several unrelated classes
            return one_line(error)
        return None

    if given is not None:
        missing = [spec.name for spec in source.inputs if spec.name not in given and spec.kind != "optional"]
        if missing:
            raise OptionError(f"the sample inputs lack {', '.join(missing)}")
        if (reason := accepts(given)) is not None:
            raise OptionError(f"the model does not accept the sample inputs: {reason}")
        samples = [given]
    else:
        sampler = find_sampler(source.inputs, request.input_shapes, accepts)
        samples = [sampler.feeds(seed + index) for index in range(num_samples)]
    values = feeds_to_ort(samples[0], source.inputs)
    return Job(
        source=source,
        device=device,
        request=request,
        work=work,
        whole=whole,
        bench=Bench(
            whole=lambda: whole.run_with_ort_values(keep, values),
            feeds=values,
            keep=keep,
            budget_s=budget_s,
            report=report,
        ),
        samples=tuple(samples),
        seed=seed,
    )
