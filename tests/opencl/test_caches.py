"""Nothing is compiled twice: neither by TVM nor by the device's driver; damaged entries are made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import onnx
import pyopencl as cl
import pytest

from opencl_runner.plan import PROGRAMS_FOLDER, find_compiled
from opencl_runner.programs import ProgramCache, build
from split_tool import split
from split_tool.__main__ import main
from split_tool.tvm_opencl.attempts import Options
from split_tool.tvm_opencl.compiling import compile_plan
from split_tool.tvm_opencl.store import CompiledStore
from split_tool.tvm_opencl.supervise import compiler_version
from tests.opencl import toys

SOURCE = "__kernel void twice(__global float* x) { x[get_global_id(0)] *= 2; }"


@pytest.fixture(scope="module")
def plan_folder(device: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("caches")
    onnx.save(toys.dense(), str(folder / "dense.onnx"))
    split(folder / "dense.onnx", folder / "dense", blocks=1, graph="user", budget_s=0.05)
    return folder / "dense"


def test_a_block_is_compiled_once_and_again_only_where_its_entry_is_damaged(plan_folder: Path, tmp_path: Path) -> None:
    options = Options(cache=tmp_path)
    (first,) = compile_plan(plan_folder, "opencl", options).blocks
    (again,) = compile_plan(plan_folder, "opencl", options).blocks
    assert first.compile_s > 0
    assert again.compile_s == 0
    (kernels,) = tmp_path.glob("*/kernels.cl")
    kernels.write_text("damaged")
    (third,) = compile_plan(plan_folder, "opencl", options).blocks
    assert third.compile_s > 0
    assert kernels.read_text() != "damaged"


def test_the_store_of_blocks_stays_below_its_size(plan_folder: Path, tmp_path: Path) -> None:
    compile_plan(plan_folder, "opencl", Options(cache=tmp_path / "full"))
    (entry,) = (tmp_path / "full").iterdir()
    store = CompiledStore(tmp_path / "small", compiler_version(), max_bytes=1)
    made = CompiledStore(tmp_path / "full", compiler_version()).take(entry.name, tmp_path / "taken")
    assert made is not None
    for key in ("a" * 64, "b" * 64):
        store.put(key, made, tmp_path / "taken")
    assert [path.name for path in (tmp_path / "small").iterdir()] == ["b" * 64]


def test_warming_stores_programs_that_the_next_start_takes(
    plan_folder: Path, device: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", str(plan_folder), "--backend", "tvm", "--warm", "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["blocks"][0]["served_by"] == "buffers"
    folder = find_compiled(plan_folder, "opencl")
    source = (folder / "block_00" / "kernels.cl").read_text()
    assert ProgramCache(folder / PROGRAMS_FOLDER).take(source, device) is not None


def test_a_damaged_program_is_thrown_away_and_built_again(device: Any, tmp_path: Path) -> None:
    cache = ProgramCache(tmp_path)
    cache.put(SOURCE, build(SOURCE, device, cache), device)
    assert cache.take(SOURCE, device) is not None
    (entry,) = tmp_path.iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    assert cache.take(SOURCE, device) is None
    assert not entry.exists()
    assert isinstance(build(SOURCE, device, cache), cl.Program)


def test_the_cache_of_programs_stays_below_its_size(device: Any, tmp_path: Path) -> None:
    cache = ProgramCache(tmp_path, max_bytes=0)
    cache.put(SOURCE, build(SOURCE, device, None), device)
    assert not list(tmp_path.iterdir())
