"""Device memory: plain buffers, and textures as arrays of RGBA images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl

from opencl_runner.device import Device
from opencl_runner.plan import Memory


def allocate(device: Device, piece: Memory) -> Any:
    """New memory of this kind; its content is undefined."""
    if piece.scope == "global":
        return cl.Buffer(device.context, cl.mem_flags.READ_WRITE, max(piece.num_bytes, 1))
    texel = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    return cl.create_image(device.context, cl.mem_flags.READ_WRITE, texel, shape=piece.image_shape, is_array=True)


def upload(device: Device, memory: Any, piece: Memory, array: np.ndarray) -> None:
    """Fill memory from the host; returns when the array is no longer needed."""
    content = np.ascontiguousarray(array)
    if piece.scope == "global":
        cl.enqueue_copy(device.queue, memory, content)
    else:
        cl.enqueue_copy(device.queue, memory, content, origin=(0, 0, 0), region=piece.image_shape)


def download(device: Device, memory: Any, piece: Memory) -> np.ndarray:
    """The content of a plain buffer; waits for everything asked for before."""
    array = np.empty(piece.shape, piece.dtype)
    if array.nbytes:
        cl.enqueue_copy(device.queue, array, memory)
    return array


def copy(device: Device, source: Any, source_piece: Memory, target: Any, target_piece: Memory) -> None:
    """Copy on the device; one of both may be a texture, or both."""
    to_image, from_image = target_piece.scope != "global", source_piece.scope != "global"
    if to_image and from_image and source_piece.image_shape != target_piece.image_shape:
        between_piece = Memory(shape=source_piece.shape, dtype=source_piece.dtype)
        between = allocate(device, between_piece)
        copy(device, source, source_piece, between, between_piece)
        copy(device, between, between_piece, target, target_piece)
    elif to_image and from_image:
        region = source_piece.image_shape
        cl.enqueue_copy(device.queue, target, source, src_origin=(0, 0, 0), dest_origin=(0, 0, 0), region=region)
    elif to_image:
        cl.enqueue_copy(device.queue, target, source, offset=0, origin=(0, 0, 0), region=target_piece.image_shape)
    elif from_image:
        cl.enqueue_copy(device.queue, target, source, offset=0, origin=(0, 0, 0), region=source_piece.image_shape)
    else:
        cl.enqueue_copy(device.queue, target, source, byte_count=source_piece.num_bytes)
