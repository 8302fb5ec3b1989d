"""The sections of ``config.yaml``, typed: what stands in ``args``, in ``user_config`` and beside a model on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from deployments.runtime.model_settings import ModelSettings
from deployments.runtime.settings import DeviceKind, DeviceSettings
from deployments.scheduling.errors import SchedulingError
from deployments.scheduling.policies.table import make_policy
from serve_app.layout import WantedGroup, chained_groups
from serve_app.repository import NAME_PATTERN, StoredModel, find_model


def _with_qos(settings: ModelSettings, qos: QosConfig) -> ModelSettings:
    """The settings with what ``qos`` states; what it does not state stays."""
    stated = qos.model_dump(exclude_unset=True)
    for name in ("deadline", "margin"):
        if f"{name}_ms" in stated:
            stated[f"{name}_s"] = _seconds(stated.pop(f"{name}_ms"))
    return msgspec.structs.replace(settings, **stated)


def _seconds(time_ms: float | None) -> float | None:
    return None if time_ms is None else time_ms / 1e3


def _check_policy(settings: DeviceSettings) -> None:
    try:
        make_policy(settings.sharing.policy, settings.policy_options)
    except SchedulingError as error:
        raise ValueError(str(error)) from error


class Section(BaseModel):
    """A part of the file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LiveDeviceConfig(Section):
    """``user_config.device``: what can change while models of the device run; what it leaves out stays as stated."""

    mode: str = Field("slo", description="dlir, oyst, bnst, fifo, parallel or slo.")
    policy: str | None = Field(None, description="fifo, sjf, srpt, edf, response_ratio or slo, not the mode's own.")
    policy_options: dict[str, float | int | bool | str] = Field(
        default_factory=dict, description="Options of the policy, by name."
    )
    max_waiting: int = Field(1000, ge=1, description="Requests that may wait for the device; one more gets 503.")
    max_waiting_per_model: int | None = Field(None, ge=1, description="The same for each model alone; null: no bound.")
    lease_limit_s: float = Field(30.0, gt=0, description="A block that runs longer has its replica replaced.")


class DeviceConfig(LiveDeviceConfig):
    """``device``: one device and what all its models share; state it once and refer to it by a YAML anchor."""

    name: str | None = Field(
        None, pattern=NAME_PATTERN, description="One name for a device that models use in several ways (kinds)."
    )
    kind: DeviceKind = Field("cpu", description="What blocks run on.")
    index: int = Field(0, ge=0, description="Which GPU, or which logical CPU device.")
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Options of the execution provider, over those that are set for it."
    )
    allow_cpu_nodes: list[str] = Field(
        default_factory=list, description="Names or operator types of nodes that may run on the processor instead."
    )
    memory_mb: int | None = Field(None, ge=1, description="Memory for all models of the device, MiB; null: all (CUDA).")
    cache: str | None = Field(None, description="Folder for what is compiled for the device.")
    threads: int = Field(1, ge=1, description="CPU threads that run one block.")
    cores: list[int] | None = Field(None, description="Processor cores the device is pinned to, one per thread.")

    @model_validator(mode="after")
    def _check(self) -> DeviceConfig:
        if self.cores is not None and len(set(self.cores)) != self.threads:
            raise ValueError(f"cores {self.cores} must be as many different ones as threads ({self.threads})")
        _check_policy(self.to_settings())
        return self

    def to_settings(self) -> DeviceSettings:
        """The same for the runtime."""
        options = {
            name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in self.options.items()
        }
        return msgspec.convert(self.model_dump() | {"options": options}, DeviceSettings)


class QosConfig(Section):
    """``qos``: what the requests of a model want when they do not say."""

    alpha: float = Field(4.0, ge=1, description="Deadline = arrival + alpha times the isolated time.")
    deadline_ms: float | None = Field(None, gt=0, description="A fixed deadline after arrival instead, milliseconds.")
    margin: float = Field(0.0, ge=0, lt=1, description="Share of the time to a deadline kept for longer turns.")
    margin_ms: float = Field(0.0, ge=0, description="Milliseconds of it kept for the way to and from the client.")
    priority: int = Field(1, ge=1, description="1 is the highest; comes before deadlines.")


class HttpConfig(Section):
    """``http``: limits of one model's HTTP interface."""

    max_body_mb: float = Field(256.0, gt=0, description="Largest request body, MiB; larger ones get 413.")
    max_json_mb: float = Field(8.0, gt=0, description="Largest JSON part; larger tensors belong in the binary form.")


class SplitConfig(Section):
    """``split``: how a model that lies in the repository as ``model.onnx`` alone is split."""

    max_block_ms: float | None = Field(None, gt=0, description="Longest block, milliseconds; null: the tool chooses.")
    cache: str | None = Field(None, description="Folder for what is made; null: .cache in the repository.")


class GroupConfig(Section):
    """One of ``chained.groups``: blocks of a model that are one deployment."""

    blocks: int | None = Field(None, ge=1, description="How many blocks; null, in the last one: all that are left.")
    device: DeviceConfig | None = Field(None, description="Where they run; null: on the model's device.")


class ChainedConfig(Section):
    """``chained``: the groups of the chained layout."""

    groups: Annotated[int, Field(ge=1)] | Annotated[list[GroupConfig], Field(min_length=1)] | None = Field(
        None, description="How many groups, of even run time, or what is in each; null: one for each block."
    )


class StoredModelConfig(Section):
    """``config.yaml`` beside a model in the repository, and the gateway's ``models``: a part of an entry's ``args``."""

    version: int | None = Field(None, ge=1, description="Version to serve; null: the highest in the repository.")
    device: DeviceConfig = DeviceConfig()
    devices: list[DeviceConfig] = Field(
        default_factory=list, description="Several devices, each what device says with these keys in place."
    )
    replicas_per_device: int = Field(1, ge=1, description="Replicas of the model on each of its devices.")
    num_gpus: float = Field(0.01, gt=0, le=1, description="Share of a GPU that Ray books for a replica (kind cuda).")
    qos: QosConfig = QosConfig()
    timeout_ms: float | None = Field(None, gt=0, description="Give a request up after this time with 504.")
    http: HttpConfig = HttpConfig()
    split: SplitConfig = SplitConfig()
    layout: Literal["fused", "chained"] = Field("fused", description="All blocks in one deployment, or in several.")
    chained: ChainedConfig = ChainedConfig()

    @model_validator(mode="before")
    @classmethod
    def _complete_devices(cls, stated: Any) -> Any:
        """Give each of ``devices`` what ``device`` says and it does not."""
        if isinstance(stated, dict) and isinstance(stated.get("devices"), list):
            common = stated.get("device")
            common = common if isinstance(common, dict) else {}
            devices = [common | each if isinstance(each, dict) else each for each in stated["devices"]]
            return stated | {"devices": devices}
        return stated

    @model_validator(mode="after")
    def _check_devices(self) -> StoredModelConfig:
        names = [each.to_settings().device for each in self.devices]
        if names and self.layout == "chained":
            raise ValueError("a chained model has one replica of each group: state the devices in chained.groups")
        if len(set(names)) < len(names):
            raise ValueError(f"devices {', '.join(names)}: each must be another one, by kind and index")
        if len({each.kind for each in self.devices}) > 1:
            raise ValueError(f"devices {', '.join(names)}: all must be of one kind, as the split plan is for one")
        return self

    @property
    def all_devices(self) -> tuple[DeviceConfig, ...]:
        """The devices that the model runs on, at least one; a model that is chained begins on the first."""
        groups = self.chained.groups if self.layout == "chained" else None
        of_groups = [group.device for group in groups if group.device is not None] if isinstance(groups, list) else []
        return tuple(self.devices) or (self.device, *of_groups)

    @property
    def num_replicas(self) -> int:
        """Replicas of the model's deployment, or of the first of a chained model."""
        return len(self.devices) * self.replicas_per_device or 1


class ModelConfig(StoredModelConfig):
    """``args`` of a model's entry."""

    model: str = Field(pattern=NAME_PATTERN, description="Name of the model and of its folder.")
    repository: str = Field("models", description="Folder with one folder per model.")

    def stored(self) -> StoredModel:
        """The model on disk.

        Raises:
            ServeAppError: If it is not there, or leaves the repository (see ``serve_app.repository``).
        """
        return find_model(Path(self.repository), self.model, self.version)

    def to_settings(self) -> ModelSettings:
        """The same for the runtime, on the first of its devices, with the version that is on disk now.

        Raises:
            ServeAppError: See ``stored``.
            LayoutRefusedError, SplitToolError: See ``chained_groups``.
        """
        stored = self.stored()
        device = self.all_devices[0].to_settings()
        settings = ModelSettings(
            model=self.model,
            version=str(stored.version),
            folder=str(stored.folder),
            device=device,
            timeout_s=_seconds(self.timeout_ms),
            groups=chained_groups(stored, self._wanted_groups(), device) if self.layout == "chained" else (),
        )
        return _with_qos(settings, self.qos)

    def _wanted_groups(self) -> int | list[WantedGroup] | None:
        groups = self.chained.groups
        if not isinstance(groups, list):
            return groups
        return [
            WantedGroup(num_blocks=group.blocks, device=(group.device or self.device).to_settings()) for group in groups
        ]


class LiveConfig(Section):
    """``user_config`` of the deployment ``SplitModel``: what Serve changes without a restart."""

    device: LiveDeviceConfig | None = Field(None, description="What all models of the device must say alike.")
    qos: QosConfig | None = Field(None, description="Instead of args.qos.")
    timeout_ms: float | None = Field(None, gt=0, description="Instead of args.timeout_ms.")

    def device_over(self, stated: DeviceSettings) -> DeviceSettings | None:
        """The device's settings with these in place; None if nothing is said of the device.

        Raises:
            ValueError: If they make no sense together.
        """
        if self.device is None:
            return None
        settings = msgspec.structs.replace(stated, **self.device.model_dump(exclude_unset=True))
        _check_policy(settings)
        return settings

    def over(self, stated: ModelSettings) -> ModelSettings:
        """The model's settings with these in place, but for the device's."""
        settings = stated if self.qos is None else _with_qos(stated, self.qos)
        if self.timeout_ms is not None:
            settings = msgspec.structs.replace(settings, timeout_s=_seconds(self.timeout_ms))
        return settings


class GatewayConfig(Section):
    """``args`` of the gateway's entry."""

    grpc_port: int | None = Field(8001, ge=1, le=65535, description="Where gRPC listens; null: no gRPC.")
    grpc_host: str = Field("127.0.0.1", description="Address that gRPC binds.")
    grpc_max_message_mb: float = Field(256.0, gt=0, lt=2048, description="Largest gRPC message, MiB.")
    repository: str | None = Field("models", description="From where models load on request; null: not at all.")
    models: StoredModelConfig = Field(
        StoredModelConfig(), description="Settings of models loaded on request, where their config.yaml says nothing."
    )
