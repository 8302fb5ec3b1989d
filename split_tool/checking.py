"""Verifies and measures a finished plan folder again, from its files alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort

from split_tool.chain import Chain, feeds_to_ort
from split_tool.errors import OptionError, one_line
from split_tool.measure import Measurement, measure
from split_tool.plan import WHOLE_MODEL_FILE, Proof, SplitPlan
from split_tool.proving import compare
from split_tool.samples import find_sampler
from split_tool.sessions import Device, open_session, session_options
from split_tool.source import Source, read_source
from split_tool.values import Feeds


def verify_folder(folder: Path, *, num_samples: int, seed: int, samples: Feeds | None = None) -> Proof:
    """Compare the chain of blocks in ``folder`` with the whole model beside it.

    Args:
        folder: A plan folder; its hashes are checked first.
        num_samples: Random inputs.
        seed: Seed of the first.
        samples: One real input instead of random ones.

    Raises:
        PlanNotFoundError: If there is no plan.
        PlanMismatchError: If a file has changed.
        ModelRefusedError: If a file cannot be loaded here.
        InputsNotFoundError: If no generated input is accepted.
        OptionError: If ``num_samples`` is less than 1.
        NotEquivalentError: If the outputs differ by more than their dtype allows.
    """
    if num_samples < 1:
        raise OptionError(f"--samples {num_samples}: at least 1")
    opened = _Opened.of(folder)
    plan = opened.plan
    feeds: list[Feeds] = [samples] if samples is not None else opened.random_feeds(num_samples, seed)
    return compare(
        opened.source,
        opened.whole,
        opened.files,
        opened.device,
        feeds,
        seed=seed,
        is_optimised=plan.graph == "optimised",
    )


def measure_folder(folder: Path, *, budget_s: float, min_rounds: int = 9, max_rounds: int = 200) -> Measurement:
    """Times of the chain in ``folder`` beside the whole model, as plain ONNX Runtime runs it, in turns.

    Args:
        folder: A plan folder; its hashes are checked first.
        budget_s: See ``measure``, as for the two following.
        min_rounds: At least so many rounds.
        max_rounds: At most so many.

    Raises:
        PlanNotFoundError: If there is no plan.
        PlanMismatchError: If a file has changed.
        ModelRefusedError: If a file cannot be loaded here.
        InputsNotFoundError: If no generated input is accepted.
    """
    opened = _Opened.of(folder)
    (feeds,) = opened.random_feeds(1, 0)
    values = feeds_to_ort(feeds, opened.source.inputs)
    chain = Chain(opened.files, opened.device, is_optimised=opened.plan.graph == "optimised")
    return measure(
        lambda: opened.whole.run_with_ort_values(opened.names, values),
        chain,
        values,
        opened.names,
        budget_s=budget_s,
        min_rounds=min_rounds,
        max_rounds=max_rounds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A plan folder whose files are as the plan says, and its whole model, loaded."""

    plan: SplitPlan
    source: Source
    device: Device
    whole: ort.InferenceSession
    names: list[str]
    files: list[Path]

    @classmethod
    def of(cls, folder: Path) -> _Opened:
        plan = SplitPlan.load(folder)
        plan.check_files(folder)
        source = read_source(folder / WHOLE_MODEL_FILE)
        device = Device(provider=plan.measured_on.provider, num_threads=plan.measured_on.num_threads)
        return cls(
            plan=plan,
            source=source,
            device=device,
            whole=open_session(source.path, device, session_options(device, optimise=True)),
            names=list(dict.fromkeys(spec.name for spec in source.outputs)),
            files=[folder / block.file for block in plan.blocks],
        )

    def random_feeds(self, num_samples: int, seed: int) -> list[Feeds]:
        sampler = find_sampler(self.source.inputs, self.plan.request.input_shapes, self._accepts)
        return [sampler.feeds(seed + index) for index in range(num_samples)]

    def _accepts(self, feeds: Feeds) -> str | None:
        try:
            self.whole.run_with_ort_values(self.names, feeds_to_ort(feeds, self.source.inputs))
        except Exception as error:  # the runtime raises several unrelated classes
            return one_line(error)
        return None
