"""Which nodes are on another device than the one asked for."""

from __future__ import annotations

from deployments.runtime.backends.providers import PROVIDERS, cache_folder, providers_with_options
from deployments.runtime.backends.strict_session import PlacedNode, misplaced
from deployments.runtime.settings import DeviceSettings

CONV = PlacedNode(name="conv1", op_type="Conv", provider="CUDAExecutionProvider")
SHAPE = PlacedNode(name="shape1", op_type="Shape", provider="CPUExecutionProvider")
UNIQUE = PlacedNode(name="", op_type="Unique", provider="CPUExecutionProvider")


def test_nodes_on_the_processor_are_misplaced_unless_their_name_or_type_is_allowed() -> None:
    nodes = [CONV, SHAPE, UNIQUE]
    assert misplaced(nodes, PROVIDERS["cuda"], ()) == [SHAPE, UNIQUE]
    assert misplaced(nodes, PROVIDERS["cuda"], ("shape1",)) == [UNIQUE]
    assert misplaced(nodes, PROVIDERS["cuda"], ("Shape", "Unique")) == []


def test_a_second_provider_of_the_same_device_may_take_nodes_but_another_device_may_not() -> None:
    assert misplaced([CONV], PROVIDERS["tensorrt"], ()) == []
    assert misplaced([CONV], PROVIDERS["openvino"], ("Conv",)) == [CONV]


def test_options_of_the_device_come_over_those_of_the_table_with_its_index_threads_and_cache_filled_in() -> None:
    device = DeviceSettings(kind="cuda", index=2, options={"cudnn_conv_algo_search": "EXHAUSTIVE"})
    ((name, options),) = providers_with_options(device)
    assert name == "CUDAExecutionProvider"
    assert options["device_id"] == "2"
    assert options["cudnn_conv_algo_search"] == "EXHAUSTIVE"


def test_what_is_compiled_lies_in_a_folder_of_the_runtime_version(tmp_path: object) -> None:
    device = DeviceSettings(kind="tensorrt", cache=str(tmp_path))
    (tensorrt, options), (cuda, _) = providers_with_options(device)
    assert (tensorrt, cuda) == PROVIDERS["tensorrt"].names
    assert options["trt_engine_cache_path"] == str(cache_folder(device))
    assert cache_folder(device).is_dir()
