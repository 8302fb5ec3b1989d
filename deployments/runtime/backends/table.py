"""Kinds of device and what serves them."""

from __future__ import annotations

from collections.abc import Mapping

from deployments.runtime.backends import onnx_sessions, opencl_blocks
from deployments.runtime.backends.interface import Backend
from deployments.runtime.settings import DeviceKind, DeviceSettings

BACKENDS: Mapping[DeviceKind, Backend] = {
    "cpu": onnx_sessions,
    "cuda": onnx_sessions,
    "tensorrt": onnx_sessions,
    "openvino": onnx_sessions,
    "migraphx": onnx_sessions,
    "qnn": onnx_sessions,
    "vitisai": onnx_sessions,
    "coreml": onnx_sessions,
    "dml": onnx_sessions,
    "webgpu": onnx_sessions,
    "opencl": opencl_blocks,
}


def backend_of(device: DeviceSettings) -> Backend:
    """The backend of the device."""
    return BACKENDS[device.kind]
