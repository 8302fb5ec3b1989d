"""The GPU asked for is the one that runs, or it is an error."""

from __future__ import annotations

import pytest

from deployments.runtime.cuda_devices import cuda_number
from deployments.runtime.errors import DeviceUnavailableError


@pytest.mark.parametrize(("index", "visible", "number"), [(2, None, 2), (0, "0,1", 0), (3, "1, 3", 1), (7, "7", 0)])
def test_a_gpu_is_found_among_those_that_the_process_sees(index: int, visible: str | None, number: int) -> None:
    assert cuda_number(index, visible) == number


@pytest.mark.parametrize("visible", ["", "0", "0,2", "GPU-5ebe9f43"])
def test_a_gpu_that_the_process_does_not_see_is_an_error_that_says_what_it_sees(visible: str) -> None:
    with pytest.raises(DeviceUnavailableError, match=rf"cuda-1 is not among .*CUDA_VISIBLE_DEVICES='{visible}'"):
        cuda_number(1, visible)
