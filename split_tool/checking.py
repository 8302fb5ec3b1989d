"""Verifies a finished plan folder again, from its files alone."""

from __future__ import annotations

from pathlib import Path

from split_tool.chain import feeds_to_ort
from split_tool.errors import OptionError
from split_tool.plan import WHOLE_MODEL_FILE, Proof, SplitPlan
from split_tool.proving import compare
from split_tool.samples import find_sampler
from split_tool.sessions import Device, one_line, open_session, session_options
from split_tool.source import read_source
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
    plan = SplitPlan.load(folder)
    plan.check_files(folder)
    source = read_source(folder / WHOLE_MODEL_FILE)
    device = Device(provider=plan.measured_on.provider, num_threads=plan.measured_on.num_threads)
    whole = open_session(source.path, device, session_options(device, optimise=True))
    names = list(dict.fromkeys(spec.name for spec in source.outputs))

    def accepts(feeds: Feeds) -> str | None:
        try:
            whole.run_with_ort_values(names, feeds_to_ort(feeds, source.inputs))
        except Exception as error:  # the runtime raises several unrelated classes
            return one_line(error)
        return None

    if num_samples < 1:
        raise OptionError(f"--samples {num_samples}: at least 1")
    feeds: list[Feeds]
    if samples is not None:
        feeds = [samples]
    else:
        sampler = find_sampler(source.inputs, plan.request.input_shapes, accepts)
        feeds = [sampler.feeds(seed + index) for index in range(num_samples)]
    files = [folder / block.file for block in plan.blocks]
    return compare(source, whole, files, device, feeds, seed=seed, is_optimised=plan.graph == "optimised")
