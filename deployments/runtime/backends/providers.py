"""ONNX Runtime's execution providers: one entry per kind of device.

Options are texts, as ONNX Runtime takes them; ``{index}``, ``{threads}`` and ``{cache}`` stand for the device's index,
its threads and the folder for what the provider compiles. ``options`` of the device come over them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import onnxruntime as ort

from deployments.runtime.cuda_devices import seen_index
from deployments.runtime.settings import DeviceKind, DeviceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How ONNX Runtime runs blocks on one kind of device.

    Attributes:
        name: The provider.
        options: Its options, see above.
        also: Providers of the same device that may take the nodes which the first does not know, with their options.
        memory: Where the values that cross a cut lie: in ``cuda`` memory, or in the host's where the provider copies.
        has_context_cache: It keeps what it compiled of a block as a model of its own (``ep.context_*``).
        remedy: What to install where it is missing.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    memory: Literal["cpu", "cuda"] = "cpu"
    has_context_cache: bool = False
    remedy: str

    @property
    def names(self) -> tuple[str, ...]:
        """Providers that nodes may be placed on."""
        return (self.name, *self.also)


_CUDA_OPTIONS = {
    "device_id": "{index}",
    # the exhaustive search, ONNX Runtime's default, runs anew for each new shape of a dynamic axis: a stall of a second
    "cudnn_conv_algo_search": "HEURISTIC",
    "arena_extend_strategy": "kSameAsRequested",
}
PROVIDERS: Mapping[DeviceKind, Provider] = {
    "cpu": Provider(name="CPUExecutionProvider", remedy="install onnxruntime"),
    "cuda": Provider(
        name="CUDAExecutionProvider",
        options=_CUDA_OPTIONS,
        memory="cuda",
        remedy="install onnxruntime-gpu, an NVIDIA driver, and the CUDA and cuDNN libraries that this version names",
    ),
    "tensorrt": Provider(
        name="TensorrtExecutionProvider",
        options={
            "device_id": "{index}",
            "trt_engine_cache_enable": "true",
            "trt_engine_cache_path": "{cache}",
            "trt_timing_cache_enable": "true",
            "trt_timing_cache_path": "{cache}",
        },
        also={"CUDAExecutionProvider": _CUDA_OPTIONS},
        memory="cuda",
        remedy="install onnxruntime-gpu, an NVIDIA driver and the TensorRT libraries",
    ),
    "openvino": Provider(
        name="OpenVINOExecutionProvider",
        options={"device_type": "CPU", "num_of_threads": "{threads}", "cache_dir": "{cache}"},
        remedy="install onnxruntime-openvino instead of the other onnxruntime packages",
    ),
    "migraphx": Provider(
        name="MIGraphXExecutionProvider",
        options={"device_id": "{index}", "migraphx_model_cache_dir": "{cache}"},
        remedy="install onnxruntime-migraphx and ROCm instead of the other onnxruntime packages",
    ),
    "qnn": Provider(
        name="QNNExecutionProvider",
        options={"backend_type": "htp"},
        has_context_cache=True,
        remedy="install onnxruntime-qnn on a device with a Qualcomm NPU",
    ),
    "vitisai": Provider(
        name="VitisAIExecutionProvider",
        options={"cache_dir": "{cache}"},
        remedy="install the onnxruntime of AMD's Ryzen AI software",
    ),
    "coreml": Provider(
        name="CoreMLExecutionProvider",
        options={"ModelFormat": "MLProgram", "ModelCacheDirectory": "{cache}"},
        remedy="use macOS with onnxruntime",
    ),
    "dml": Provider(
        name="DmlExecutionProvider",
        options={"device_id": "{index}"},
        remedy="use Windows with onnxruntime-directml",
    ),
    "webgpu": Provider(name="WebGpuExecutionProvider", remedy="install an onnxruntime that is built with WebGPU"),
}


def providers_with_options(device: DeviceSettings) -> list[tuple[str, dict[str, str]]]:
    """The device's providers in order of preference, each with its options; makes the cache folder if one uses it."""
    provider = PROVIDERS[device.kind]
    stated = {provider.name: {**provider.options, **device.options}, **provider.also}
    if any("{cache}" in text for options in stated.values() for text in options.values()):
        cache_folder(device).mkdir(parents=True, exist_ok=True)
    index, threads, cache = seen_index(device), device.threads, cache_folder(device)
    places = {"{index}": str(index), "{threads}": str(threads), "{cache}": str(cache)}
    return [(name, {key: _filled(text, places) for key, text in options.items()}) for name, options in stated.items()]


def cache_folder(device: DeviceSettings) -> Path:
    """Where what is compiled for the device is kept: of one runtime version, because others do not read it."""
    root = device.cache or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dlir-serve"
    return Path(root).absolute() / f"{device.kind}-onnxruntime-{ort.__version__}"


def _filled(text: str, places: Mapping[str, str]) -> str:
    for place, value in places.items():
        text = text.replace(place, value)
    return text
