"""The plain data between compiler and runner: shapes of textures, memory that intermediates share, padded channels."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

from opencl_runner.plan import Copy, Launch, Launches, Memory
from split_tool.tvm_opencl.launches import share_memory
from split_tool.tvm_opencl.padding import pad_channels
from tests.integration.split_tool.tiny_models import model, value, weight


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("global.texture", (6, 5, 2 * 3)),
        ("global.texture-weight", (3 * 5 * 6, 2, 1)),
        ("global.texture-nhwc", (5 * 6, 3, 2)),
    ],
)
def test_the_scope_of_a_texture_says_which_axes_are_width_height_and_layers(
    scope: str, expected: tuple[int, int, int]
) -> None:
    assert Memory(shape=(2, 3, 5, 6, 4), dtype="float32", scope=scope).image_shape == expected


def _launch(*arguments: int) -> Launch:
    return Launch(kernel="k", arguments=arguments, groups=(1, 1, 1), threads=(1, 1, 1))


def test_intermediates_of_one_size_share_memory_when_they_are_not_alive_together() -> None:
    plain = Memory(shape=(8,), dtype="float32")
    chain = Launches(
        memory=(plain,) * 6,  # input, weight, three intermediates, output
        inputs={"x": 0},
        outputs={"y": 5},
        constants=(1,),
        steps=(_launch(2, 0, 1), _launch(3, 2), Copy(source=3, target=4), _launch(5, 4)),
    )
    shared, constants = share_memory(chain, {1: np.ones(8, np.float32)})
    assert len(shared.memory) == 3 + 2  # of the intermediates two are alive at a time
    first, second, third, last = shared.steps
    assert isinstance(first, Launch)
    assert isinstance(second, Launch)
    assert isinstance(third, Copy)
    assert isinstance(last, Launch)
    assert first.arguments[0] == second.arguments[1] == third.target == last.arguments[1]
    assert list(constants) == [first.arguments[2]]
    assert (shared.inputs["x"], shared.outputs["y"]) == (first.arguments[1], last.arguments[0])


@pytest.mark.parametrize("opset", [9, 10, 18])
def test_channels_are_padded_to_texels_with_zero_weights(opset: int) -> None:
    conv = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])
    made = model(
        [conv], [value("x", (1, 3, 8, 8))], [value("y", (1, 6, 8, 8))], [weight("w", 6, 3, 3, 3), weight("b", 6)]
    )
    made.opset_import[0].version = opset
    assert pad_channels(made) == 1
    assert [node.op_type for node in made.graph.node] == ["Pad", "Conv", "Slice"]
    filters, bias = (
        numpy_helper.to_array(tensor)
        for name in made.graph.node[1].input[1:]
        for tensor in made.graph.initializer
        if tensor.name == name
    )
    assert filters.shape == (8, 4, 3, 3)
    assert not filters[6:].any()
    assert not filters[:, 3:].any()
    assert not bias[6:].any()
    assert pad_channels(made) == 0
