"""From scheduled functions to OpenCL C, and to what the host would do: kernels to launch on which memory."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir.backend.adreno.pipeline import default_tir_pipeline as adreno_pipeline
from tvm.s_tir.pipeline import default_s_tir_pipeline, finalize_device_passes

_SPLIT = "tirx.SplitHostDevice"
_KERNEL_CONVENTION = 2


def generate(module: Any, target: Any, *, texture: bool) -> tuple[str, dict[str, Any]]:
    """The kernels of all functions, and by name the functions that launch them.

    Host code is never built: TVM's wheel cannot lower textures in it, and what it would do is launches alone.
    """
    functions = {g: f for g, f in module.functions_items() if isinstance(f, tirx.PrimFunc)}
    primitives = tirx.transform.BindTarget(target.with_host(tvm.target.Target("llvm")))(tvm.IRModule(functions))
    if texture:
        primitives = _with_whole_texels(s_tir.backend.adreno.transform.TextureFlatten()(primitives))
    pipeline = adreno_pipeline() if texture else default_s_tir_pipeline()[0]
    split = tvm.instrument.pass_instrument(_AfterSplit)()
    with tvm.transform.PassContext(instruments=[split]), target:
        pipeline(primitives)
    device = {g: f for g, f in split.module.functions_items() if f.attrs.get("calling_conv") == _KERNEL_CONVENTION}
    host = {g.name_hint: f for g, f in split.module.functions_items() if g not in device}
    kernels = finalize_device_passes()(tvm.IRModule(device))
    source: str = tvm.get_global_func("target.build.opencl")(kernels, target).inspect_source("cl")
    return source, host


class _AfterSplit:
    """Keeps the module as it is when host and device functions have just been separated."""

    module: Any = None

    def run_after_pass(self, module: Any, info: Any) -> None:
        """Called by TVM after each pass."""
        if info.name == _SPLIT:
            self.module = module


def _with_whole_texels(module: Any) -> Any:
    """Stores into textures typed as numbers, not as pointers: else VectorizeLoop broadcasts one channel to all four."""

    def retype(call: Any) -> Any:
        if isinstance(call.op, tvm.ir.Op) and call.op.name == "tirx.texture2d_store":
            return tirx.call_intrin("int32", "tirx.texture2d_store", *call.args)
        return call

    for name, function in module.functions_items():
        module[name] = function.with_body(tvm_ffi.structural_map(function.body, (tvm.ir.Call, retype)))
    return module
