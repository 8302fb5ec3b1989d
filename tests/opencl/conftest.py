"""Tests that compile with TVM and run on an OpenCL device; each skips itself, and says why, where one is missing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: make install-tvm")
pytest.importorskip("pyopencl", reason="pyopencl is not installed: make install-tvm")

_POCL_CACHE = tempfile.TemporaryDirectory(prefix="pocl-")
os.environ["POCL_CACHE_DIR"] = _POCL_CACHE.name  # read when the first platform is asked for


@pytest.fixture(scope="session", autouse=True)
def pocl_cache() -> Iterator[None]:
    """PoCL's own cache starts empty and goes with the tests."""
    yield
    _POCL_CACHE.cleanup()


@pytest.fixture(scope="session")
def device() -> object:
    """The first OpenCL device."""
    from opencl_runner.device import open_device
    from opencl_runner.errors import NoOpenClDeviceError

    try:
        return open_device()
    except NoOpenClDeviceError as error:
        pytest.skip(f"no OpenCL device: {error}")
