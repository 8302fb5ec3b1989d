"""From an ONNX block to scheduled functions and the calls of them: TVM's passes, in our order."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto
from tvm import relax, tirx, transform
from tvm.relax.backend.adreno.transform import AnnotateCustomMemoryScope, FoldVDeviceScopeChange
from tvm.relax.frontend.onnx import from_onnx
from tvm.s_tir import dlight

from split_tool.tvm_opencl.convolutions import Convolutions
from split_tool.tvm_opencl.schedules import rules

_STAY_IN_LAYOUT = ["relax.nn.conv2d", "relax.nn.max_pool2d", "relax.nn.adaptive_avg_pool2d"]


def lower(model: ModelProto, target: Any, convolutions: Convolutions, *, texture: bool) -> Any:
    """A module with a function ``main`` that only calls scheduled functions.

    Args:
        model: A prepared block.
        target: TVM's target.
        convolutions: Chooses for each convolution.
        texture: Annotate memory with texture scopes.
    """
    passes = relax.transform
    by_choice = {"relax.nn.conv2d": convolutions.legalize}
    sequence = [tirx.transform.BindTarget(target), passes.DecomposeOpsForInference(), passes.FoldConstant()]
    if texture:
        sequence += [
            passes.ConvertLayout({}, convolutions.layout),
            passes.Normalize(),
            passes.FoldConstant(),
            passes.LegalizeOps(skip_ops=_STAY_IN_LAYOUT),
            passes.AnnotateTIROpPattern(),
            AnnotateCustomMemoryScope(target),
        ]
    sequence += [
        passes.LegalizeOps(by_choice),
        passes.AnnotateTIROpPattern(),
        passes.FoldConstant(),
        passes.FuseOps(),
        passes.FuseTIR(),
        passes.DeadCodeElimination(),
    ]
    if texture:
        sequence += [
            FoldVDeviceScopeChange(),
            passes.DeadCodeElimination(),
            passes.SpecializePrimFuncBasedOnCallSite(),
        ]
    sequence += [
        passes.Normalize(),
        dlight.ApplyDefaultSchedule(*rules(texture=texture)),
        passes.RewriteDataflowReshape(),
        passes.ToNonDataflow(),
        passes.RemovePurityChecking(),
        passes.AttachGlobalSymbol(),
    ]
    with target:
        return transform.Sequential(sequence)(from_onnx(model))
