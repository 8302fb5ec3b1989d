"""On which device a replica of a model sits, and what Ray is told of that."""

from __future__ import annotations

import hashlib
from typing import Any

from ray import serve

from deployments.runtime.allocator_actor import device_folder, node_folder
from deployments.runtime.cuda_devices import CUDA_KINDS
from deployments.runtime.neighbours import Neighbours
from deployments.runtime.seats import Seat
from deployments.runtime.settings import DeviceSettings
from serve_app.sections import ModelConfig


class Place:
    """The place of one replica among those of its model.

    Attributes:
        device: The device it sits on.
        neighbours: The other replicas; None where there is one device.
    """

    def __init__(self, config: ModelConfig, fingerprint: str) -> None:
        """Take a place.

        Args:
            config: The model.
            fingerprint: Of what is served: replicas of another version are no neighbours.
        """
        stated = [device.to_settings() for device in config.devices or [config.device]]
        devices = {settings.device: settings for settings in stated}
        self.device: DeviceSettings = next(iter(devices.values()))
        self.neighbours: Neighbours | None = None
        if len(devices) > 1:
            application = serve.get_replica_context().app_name
            key = hashlib.sha256(f"{application} {fingerprint}".encode()).hexdigest()[:6]
            seat = Seat(node_folder() / f"dlir-{key}", list(devices))
            self.device = devices[seat.device]
            self.neighbours = Neighbours(seat, {name: device_folder(name) for name in devices})


def actor_options(config: ModelConfig, device: DeviceSettings) -> dict[str, Any]:
    """What Ray books for a replica of the model on the device. Devices are ours to hand out."""
    if device.kind not in CUDA_KINDS:
        return {"num_cpus": 0}
    # num_gpus is bookkeeping: it keeps a replica to nodes with room. Ray would show it one GPU of Ray's choice
    show_all = {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {"num_cpus": 0, "num_gpus": config.num_gpus, "runtime_env": {"env_vars": show_all}}
