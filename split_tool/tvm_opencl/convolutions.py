"""Which algorithm and layout each convolution gets: direct, depthwise, grouped or Winograd; on textures or buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import relax, topi
from tvm.ir import GenericConst
from tvm.relax.transform.legalize_ops.adreno import conv2d_NCHWc_OIHWo
from tvm.topi.nn import winograd_util

from split_tool.tvm_opencl.jobs import Algorithm
from split_tool.tvm_opencl.targets import Target

TEXTURE_LAYOUT = ["NCHW4c", "OIHW4o", "NCHW4c"]
PLAIN_LAYOUT = ["NCHW", "OIHW", "NCHW"]  # left open, a convolution would take its input's layout and fail
_TILE, _KERNEL = 4, 3


class Convolutions:
    """Chooses for one block and remembers what it chose."""

    def __init__(self, target: Target, algorithms: Mapping[str, Algorithm], *, follows_rule: bool) -> None:
        """Choose for ``target``; see ``jobs.Job`` for the others."""
        self._least = target.winograd_channels if follows_rule else None
        self._least_pixels = target.winograd_pixels
        self._algorithms = algorithms
        self.eligible: list[str] = []
        self.winograd: list[str] = []

    def layout(self, call: Any) -> dict[str, list[str]]:
        """For TVM's ``ConvertLayout``: textures for dense convolutions whose channels fill texels."""
        if call.op.name != "relax.nn.conv2d":
            return {}
        out_channels, in_channels = _sizes(call.args[1])[:2]
        fills_texels = int(call.attrs.groups) == 1 and in_channels % 4 == 0 and out_channels % 4 == 0
        is_texture = fills_texels and not self._wants_winograd(call)
        return {"relax.nn.conv2d": TEXTURE_LAYOUT if is_texture else PLAIN_LAYOUT}

    def legalize(self, builder: Any, call: Any) -> Any:
        """For TVM's ``LegalizeOps``: the computation of one ``relax.nn.conv2d``."""
        if call.attrs.data_layout == "NCHW4c":
            return conv2d_NCHWc_OIHWo(builder, call)
        data, weights = call.args
        attributes = call.attrs
        groups, channels = int(attributes.groups), _sizes(data)[1]
        window = (attributes.strides, attributes.padding, attributes.dilation)
        if self._wants_winograd(call):
            self.winograd.append(key_of(call))
            return builder.call_te(
                topi.nn.conv2d_winograd_nchw_without_weight_transform,
                data,
                relax.const(winograd_weights(weights.value.numpy())),
                *window,
                "float32",
                primfunc_name_hint="conv2d_winograd",
            )
        if groups == 1:
            return builder.call_te(topi.nn.conv2d_nchw, data, weights, *window, primfunc_name_hint="conv2d_direct")
        if groups == channels == _sizes(weights)[0]:
            return builder.call_te(
                topi.nn.depthwise_conv2d_nchw, data, weights, *window, primfunc_name_hint="conv2d_depthwise"
            )
        return builder.call_te(
            topi.nn.group_conv2d_nchw, data, weights, *window, groups, primfunc_name_hint="conv2d_grouped"
        )

    def _wants_winograd(self, call: Any) -> bool:
        if not _can_be_winograd(call):
            return False
        key = key_of(call)
        if key not in self.eligible:
            self.eligible.append(key)
        if key in self._algorithms:
            return self._algorithms[key] == "winograd"
        if self._least is None:
            return False
        out_channels, in_channels = _sizes(call.args[1])[:2]
        height, width = _sizes(call)[2:4]
        return min(out_channels, in_channels) >= self._least and height * width >= self._least_pixels


def key_of(call: Any) -> str:
    """The shape of a 3x3 convolution: ``1x64x56x56-64``, input and output channels."""
    return "x".join(str(size) for size in _sizes(call.args[0])) + f"-{_sizes(call.args[1])[0]}"


def winograd_weights(weights: np.ndarray) -> np.ndarray:
    """Weights for F(4x4, 3x3): ``(out, in, 3, 3)`` becomes ``(6, 6, in, out)``, ``G g G^T`` of each filter."""
    points = winograd_util._interpolation_points(_TILE + _KERNEL - 2)
    _, _, g = winograd_util._cook_toom_convolution(points, _TILE, _KERNEL)
    transformed: np.ndarray = np.einsum("oihw,eh,nw->enio", weights.astype(np.float64), g, g)
    return transformed.astype(np.float32)


def _can_be_winograd(call: Any) -> bool:
    attributes = call.attrs
    return (
        attributes.data_layout == "NCHW"
        and isinstance(call.args[1], GenericConst)
        and int(attributes.groups) == 1
        and _sizes(call.args[1])[2:] == [_KERNEL, _KERNEL]
        and all(int(step) == 1 for step in (*attributes.strides, *attributes.dilation))
    )


def _sizes(value: Any) -> list[int]:
    return [int(size) for size in value.ty.shape]
