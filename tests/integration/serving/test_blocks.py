"""Block chains with real ONNX Runtime sessions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deployments.runtime.backends.onnx_sessions import BlockChain, Values
from deployments.runtime.settings import DeviceSettings
from split_tool.plan import SplitPlan
from tests.models import random_input, whole_model_outputs


def run(chain: BlockChain, values: Values) -> dict[str, np.ndarray]:
    for block in range(chain.num_blocks):
        chain.run_block(block, values)
    return chain.finish(values)


@pytest.fixture(scope="module")
def chain(repository: Path) -> BlockChain:
    folder = repository / "squeezenet"
    return BlockChain(SplitPlan.load(folder), folder, DeviceSettings(), is_split=True)


def test_requests_that_are_interleaved_at_every_boundary_do_not_touch_each_other(chain: BlockChain) -> None:
    assert chain.num_blocks > 1
    for seed in (0, 10, 20):  # the first round allocates, the others reuse
        inputs = [random_input("squeezenet", seed + index) for index in range(3)]
        values = [chain.start(each) for each in inputs]
        for block in range(chain.num_blocks):
            for each in values:
                chain.run_block(block, each)
        for each, given in zip(values, inputs, strict=True):
            for name, expected in whole_model_outputs("squeezenet", given).items():
                np.testing.assert_array_equal(chain.finish(each)[name], expected, strict=True)


def test_outputs_already_given_out_are_not_overwritten_by_later_requests(chain: BlockChain) -> None:
    first = run(chain, chain.start(random_input("squeezenet", 1)))
    kept = {name: array.copy() for name, array in first.items()}
    for seed in range(2, 6):
        run(chain, chain.start(random_input("squeezenet", seed)))
    for name, array in kept.items():
        np.testing.assert_array_equal(first[name], array)


def test_an_abandoned_request_leaves_no_trace_in_the_next(chain: BlockChain) -> None:
    abandoned = chain.start(random_input("squeezenet", 3))
    chain.run_block(0, abandoned)
    del abandoned
    inputs = random_input("squeezenet", 4)
    outputs = run(chain, chain.start(inputs))
    for name, expected in whole_model_outputs("squeezenet", inputs).items():
        np.testing.assert_array_equal(outputs[name], expected)


def test_unsplit_it_is_the_users_whole_model(repository: Path) -> None:
    folder = repository / "squeezenet"
    whole = BlockChain(SplitPlan.load(folder), folder, DeviceSettings(), is_split=False)
    assert whole.num_blocks == 1
    inputs = random_input("squeezenet", 2)
    outputs = run(whole, whole.start(inputs))
    for name, expected in whole_model_outputs("squeezenet", inputs).items():
        np.testing.assert_array_equal(outputs[name], expected, strict=True)
