"""Along which axes one operator can be computed in parts that do not depend on each other (pure).

Three axes are known. **channels**: output channels of Conv and ConvTranspose, each part with its own rows of the
weights; where there are groups, whole ones, each part with its channels of the input. **columns**: output columns of
MatMul and Gemm, likewise. **rows**: the first spatial axis of Conv and LRN; each part reads its rows of the input with
the rows around them that the kernel reaches. A tensor that a fused convolution adds is cut like the output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from onnx import NodeProto, helper

from split_tool.scope import domain_of

NCHWC_DOMAIN = "com.microsoft.nchwc"
"""Operators on ONNX Runtime's blocked layout: 8 or 16 channels of a pixel lie side by side."""

CHANNEL_UNITS = (64, 32, 16)
"""Channels per part come in multiples of one of these. The convolution kernels work on up to 64 output channels at
once, and smaller parts read their input more often; 16 are whole blocks of the blocked layout of every processor."""

UNEVEN = 1.15
"""A coarser unit is taken where the largest part stays within this factor of an even share."""

Axis = Literal["channels", "columns", "rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceWay:
    """One axis along which an operator can be sliced.

    Attributes:
        axis: Which.
        length: Size of the output along it.
        units: Sizes of the parts are multiples of one of these, the coarsest that leaves them even.
    """

    axis: Axis
    length: int
    units: tuple[int, ...]

    @property
    def max_slices(self) -> int:
        """As many parts as there are whole units; 1 means that the operator cannot be sliced so."""
        return max(1, self.length // self.units[-1])

    def sizes(self, num_slices: int) -> tuple[int, ...]:
        """Sizes of ``num_slices`` parts, as even as the unit allows; the last takes what is no whole unit."""
        even = self.length / num_slices
        fitting = (unit for unit in self.units if math.ceil(self.length // unit / num_slices) * unit <= UNEVEN * even)
        unit = next((unit for unit in fitting if self.length // unit >= num_slices), self.units[-1])
        units, rest = divmod(self.length, unit)
        base, more = divmod(units, num_slices)
        parts = [unit * (base + (index < more)) for index in range(num_slices)]
        parts[-1] += rest
        return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Kernel of a convolution along its first spatial axis.

    Attributes:
        kernel: Taps.
        stride: Distance of neighbouring outputs in the input.
        dilation: Distance of neighbouring taps.
        before: Padding at the begin.
        after: Padding at the end.
    """

    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    def output_length(self, length: int) -> int:
        """Size of the output for an input of ``length``."""
        return (length + self.before + self.after - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    def rows(self, start: int, stop: int, length: int) -> tuple[int, int, int, int]:
        """For output rows ``start`` to ``stop - 1``: first and last-but-one input row, padding before and after."""
        first = start * self.stride - self.before
        last = (stop - 1) * self.stride - self.before + self.dilation * (self.kernel - 1) + 1
        return max(first, 0), min(last, length), max(-first, 0), max(last - length, 0)


def attributes_of(node: NodeProto) -> dict[str, object]:
    """The node's attributes as plain values."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def is_convolution(node: NodeProto) -> bool:
    """True for Conv in any of its forms."""
    domain = domain_of(node.domain)
    return (domain, node.op_type) in (("", "Conv"), ("com.microsoft", "FusedConv"), (NCHWC_DOMAIN, "Conv"))


def window_of(node: NodeProto, kernel: int) -> Window | None:
    """The window of a convolution along its first spatial axis; None where the runtime chooses the padding."""
    attributes = attributes_of(node)
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return None

    def first(name: str, default: int) -> int:
        values = attributes.get(name)
        return int(values[0]) if isinstance(values, list) and values else default

    pads = attributes.get("pads")
    ends = [int(pad) for pad in pads] if isinstance(pads, list) and pads else [0, 0]
    if attributes.get("auto_pad") == b"VALID":
        ends = [0, 0]
    return Window(
        kernel=kernel,
        stride=first("strides", 1),
        dilation=first("dilations", 1),
        before=ends[0],
        after=ends[len(ends) // 2],
    )


def slice_ways(
    node: NodeProto, weights: Mapping[str, tuple[int, ...]], input_shape: tuple[int | str | None, ...] | None
) -> tuple[SliceWay, ...]:
    """The ways to slice a node, those first that need no copy of the input.

    Args:
        node: The operator.
        weights: Shapes of the model's dense initializers, by name.
        input_shape: Shape of the node's first input as far as it is fixed; None if not even its rank is known.
    """
    if is_convolution(node):
        return _convolution_ways(node, weights, input_shape)
    constant = [name in weights or not name for name in node.input]
    key = domain_of(node.domain), node.op_type
    if key == ("", "ConvTranspose"):
        if all(constant[1:]) and group_of(node) == 1:
            return _useful(SliceWay(axis="channels", length=weights[node.input[1]][1], units=CHANNEL_UNITS))
    elif key in (("", "MatMul"), ("", "Gemm"), ("com.microsoft", "FusedGemm")):
        if (
            len(constant) >= 2
            and all(constant[1:])
            and len(weights[node.input[1]]) == 2
            and _is_sliceable_bias(node, weights)
        ):
            columns = weights[node.input[1]][0 if attributes_of(node).get("transB", 0) else 1]
            return _useful(SliceWay(axis="columns", length=columns, units=CHANNEL_UNITS))
    elif key == ("", "LRN") and input_shape is not None and len(input_shape) == 4 and isinstance(input_shape[2], int):
        return _useful(SliceWay(axis="rows", length=input_shape[2], units=(1,)))
    return ()


def _is_sliceable_bias(node: NodeProto, weights: Mapping[str, tuple[int, ...]]) -> bool:
    """True if the third input, where there is one, is a vector over the columns or the same for all of them."""
    if len(node.input) < 3 or not node.input[2]:
        return True
    shape = weights[node.input[2]]
    return math.prod(shape[:-1]) == 1


def _convolution_ways(
    node: NodeProto, weights: Mapping[str, tuple[int, ...]], input_shape: tuple[int | str | None, ...] | None
) -> tuple[SliceWay, ...]:
    """Channels, in whole groups, where weights are constant; rows where the height is fixed too."""
    if any(name and name not in weights for name in node.input[1:3]):
        return ()
    weight = weights[node.input[1]]
    group = group_of(node)
    units = CHANNEL_UNITS if group == 1 else _group_units(weight[0] // group, weight[1])
    ways = [SliceWay(axis="channels", length=weight[0], units=units)]
    window = window_of(node, weight[2])
    if window is not None and input_shape is not None and all(isinstance(axis, int) for axis in input_shape[1:]):
        height = input_shape[2]
        assert isinstance(height, int)
        ways.append(SliceWay(axis="rows", length=window.output_length(height), units=(1,)))
    return _useful(*ways)


def group_of(node: NodeProto) -> int:
    """Number of groups of a convolution, 1 if it has none."""
    group = attributes_of(node).get("group", 1)
    assert isinstance(group, int)
    return group


def _group_units(made: int, read: int) -> tuple[int, ...]:
    """Units of output channels that are whole groups, each of ``made`` output and ``read`` input channels.

    Input and output channels of a part are whole blocks of the blocked layout, too.
    """
    groups = (math.lcm(unit // math.gcd(made, unit), unit // math.gcd(read, unit)) for unit in CHANNEL_UNITS)
    return tuple(dict.fromkeys(made * count for count in groups))


def _useful(*ways: SliceWay) -> tuple[SliceWay, ...]:
    return tuple(way for way in ways if way.max_slices > 1)
