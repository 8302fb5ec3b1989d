"""``config.yaml``, typed and checked as a whole before anything starts.

The file is Ray Serve's own configuration file; this module checks what stands in ``args`` of the entries whose
``import_path`` is one of ours, and what the entries must agree on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ray.serve.schema import ServeDeploySchema

from deployments.runtime.settings import DeviceSettings
from deployments.runtime.split_model import ModelSettings
from deployments.scheduling.errors import SchedulingError
from deployments.scheduling.policies.table import make_policy
from serve_app.errors import ConfigError, RepositoryMissingError
from split_tool.plan import PLAN_FILE

MODEL_IMPORT_PATH = "serve_app.app:model"
GATEWAY_IMPORT_PATH = "serve_app.app:gateway"
MODEL_ROUTE = "/v2/models/"

Config = TypeVar("Config", bound=BaseModel)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DeviceConfig(_Section):
    """``device``: one device and what all its models share; state it once and refer to it by a YAML anchor."""

    kind: Literal["cpu", "cuda"] = Field("cpu", description="What blocks run on.")
    index: int = Field(0, ge=0, description="Which GPU, or which logical CPU device.")
    threads: int = Field(1, ge=1, description="CPU threads that run one block.")
    cores: list[int] | None = Field(None, description="Processor cores the device is pinned to, one per thread.")
    mode: str = Field("slo", description="dlir, oyst, bnst, fifo, parallel or slo.")
    policy: str | None = Field(None, description="fifo, sjf, srpt, edf, response_ratio or slo, not the mode's own.")
    policy_options: dict[str, float | int | bool | str] = Field(
        default_factory=dict, description="Options of the policy, by name."
    )
    max_waiting: int = Field(1000, ge=1, description="Requests that may wait for the device; one more gets 503.")
    lease_limit_s: float = Field(30.0, gt=0, description="A block that runs longer has its replica replaced.")

    @model_validator(mode="after")
    def _check(self) -> DeviceConfig:
        if self.cores is not None and len(set(self.cores)) != self.threads:
            raise ValueError(f"cores {self.cores} must be as many different ones as threads ({self.threads})")
        try:
            make_policy(self.to_settings().sharing.policy, self.policy_options)
        except SchedulingError as error:
            raise ValueError(str(error)) from error
        return self

    def to_settings(self) -> DeviceSettings:
        """The same for the runtime."""
        return DeviceSettings(
            kind=self.kind,
            index=self.index,
            threads=self.threads,
            cores=None if self.cores is None else tuple(self.cores),
            mode=self.mode,
            policy=self.policy,
            policy_options=self.policy_options,
            max_waiting=self.max_waiting,
            lease_limit_s=self.lease_limit_s,
        )


class QosConfig(_Section):
    """``qos``: what the requests of a model want when they do not say."""

    alpha: float = Field(4.0, ge=1, description="Deadline = arrival + alpha times the isolated time.")
    deadline_ms: float | None = Field(None, gt=0, description="A fixed deadline after arrival instead, milliseconds.")
    priority: int = Field(1, ge=1, description="1 is the highest; comes before deadlines.")


class HttpConfig(_Section):
    """``http``: limits of one model's HTTP interface."""

    max_body_mb: float = Field(256.0, gt=0, description="Largest request body, MiB; larger ones get 413.")
    max_json_mb: float = Field(8.0, gt=0, description="Largest JSON part; larger tensors belong in the binary form.")


class ModelConfig(_Section):
    """``args`` of a model's entry."""

    model: str = Field(pattern=r"^[A-Za-z0-9_-]+$", description="Name of the model and of its folder.")
    repository: str = Field("models", description="Folder with one split plan folder per model.")
    device: DeviceConfig = DeviceConfig()
    qos: QosConfig = QosConfig()
    timeout_ms: float | None = Field(None, gt=0, description="Give a request up after this time with 504.")
    http: HttpConfig = HttpConfig()

    @property
    def folder(self) -> Path:
        """Folder of the model's split plan."""
        return Path(self.repository).absolute() / self.model

    def to_settings(self) -> ModelSettings:
        """The same for the runtime."""
        return ModelSettings(
            model=self.model,
            folder=str(self.folder),
            device=self.device.to_settings(),
            alpha=self.qos.alpha,
            deadline_s=None if self.qos.deadline_ms is None else self.qos.deadline_ms / 1e3,
            priority=self.qos.priority,
            timeout_s=None if self.timeout_ms is None else self.timeout_ms / 1e3,
        )


class GatewayConfig(_Section):
    """``args`` of the gateway's entry."""

    grpc_port: int | None = Field(8001, ge=1, le=65535, description="Where gRPC listens; null: no gRPC.")
    grpc_host: str = Field("127.0.0.1", description="Address that gRPC binds.")
    grpc_max_message_mb: float = Field(256.0, gt=0, lt=2048, description="Largest gRPC message, MiB.")


class ServerConfig(_Section):
    """A configuration file that has passed every check.

    Attributes:
        raw: The file as parsed, for Ray Serve.
        models: The ``args`` of its model entries.
        host: Where HTTP listens.
        port: The same.
        gateway: The ``args`` of its gateway entry.
    """

    raw: dict[str, Any]
    models: tuple[ModelConfig, ...]
    host: str
    port: int
    gateway: GatewayConfig


def load_config(
    path: Path, *, mode: str | None = None, port: int | None = None, grpc_port: int | None = None
) -> ServerConfig:
    """The checked configuration file.

    Args:
        path: A YAML file.
        mode: Replaces the mode of every device.
        port: Replaces the HTTP port.
        grpc_port: Replaces the gRPC port.

    Raises:
        ConfigError: For whatever is wrong in the file; all faults at once.
        RepositoryMissingError: If a model's split plan is not there.
    """
    raw = _read(path)
    entries = raw.get("applications")
    entries = entries if isinstance(entries, list) else []
    faults = _faults_of_serve_schema(raw)
    models: list[ModelConfig] = []
    gateway: GatewayConfig | None = None
    has_gateway = False
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            continue
        where = f"applications[{index}].args"
        args = entry.get("args")
        if entry.get("import_path") == MODEL_IMPORT_PATH:
            if mode is not None and isinstance(args, dict):
                device = args.get("device")
                args = args | {"device": (device if isinstance(device, dict) else {}) | {"mode": mode}}
                entry["args"] = args
            model, found = _validate(ModelConfig, args, where)
            faults += found
            if model is not None:
                models.append(model)
                faults += _faults_of_entry(entry, model, f"applications[{index}]")
        elif entry.get("import_path") == GATEWAY_IMPORT_PATH:
            has_gateway = True
            if grpc_port is not None and isinstance(args, dict | None):
                entry["args"] = args = (args or {}) | {"grpc_port": grpc_port}
            gateway, found = _validate(GatewayConfig, args, where)
            faults += found
    faults += _faults_between(models)
    if not models and not faults:
        faults.append(f"no entry has import_path {MODEL_IMPORT_PATH}: there is nothing to serve")
    if not has_gateway and not faults:
        faults.append(f"no entry has import_path {GATEWAY_IMPORT_PATH}: /v2/health would not answer; add one at /")
    if faults:
        raise ConfigError(f"{path}:\n  " + "\n  ".join(faults))
    for model in models:
        _check_repository(model)
    http = {"host": "127.0.0.1", "port": 8000} | (raw.get("http_options") or {})
    if port is not None:
        http["port"] = port
    raw["http_options"] = http
    assert gateway is not None
    return ServerConfig(raw=raw, models=tuple(models), host=http["host"], port=http["port"], gateway=gateway)


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no YAML: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} must be a mapping with the key 'applications'")
    return raw


def _faults_of_serve_schema(raw: dict[str, Any]) -> list[str]:
    """What Serve would refuse, and the keys that it would silently ignore; ``x-...`` may hold YAML anchors."""
    known = {key: value for key, value in raw.items() if not key.startswith("x-")}
    return _validate(ServeDeploySchema, known, "")[1] + _unknown_keys(ServeDeploySchema, known, "")


def _unknown_keys(kind: type[BaseModel], value: object, where: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    faults = []
    for key, below in value.items():
        place = f"{where}.{key}" if where else str(key)
        if key not in kind.model_fields:
            allowed = ", ".join(sorted(kind.model_fields))
            faults.append(f"{place}: unknown key (value {_short(below)}); allowed here are {allowed}")
        elif (kind_below := _model_in(kind.model_fields[key].annotation)) is not None:
            for index, entry in enumerate(below if isinstance(below, list) else [below]):
                faults += _unknown_keys(kind_below, entry, f"{place}[{index}]" if isinstance(below, list) else place)
    return faults


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The pydantic model that an annotation is, or has somewhere inside: ``Optional[Model]``, ``list[Model]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model_in(each)) is not None), None)


def _validate(kind: type[Config], value: object, where: str) -> tuple[Config | None, list[str]]:
    try:
        return kind.model_validate(value if value is not None else {}), []
    except ValidationError as error:
        return None, [_fault(kind, dict(detail), where) for detail in error.errors()]


def _fault(kind: type[BaseModel], detail: dict[str, Any], where: str) -> str:
    """One line: key, value, what is allowed."""
    place = where
    for part in detail["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    if detail["type"] == "extra_forbidden":
        allowed = ", ".join(_fields_at(kind, detail["loc"][:-1]))
        return f"{place}: unknown key (value {detail['input']!r}); allowed here are {allowed}"
    if detail["type"] == "missing":
        return f"{place}: missing; {detail['msg'].lower()}"
    message = detail["msg"].removeprefix("Value error, ")
    return f"{place}: {message} (found {_short(detail['input'])})"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _fields_at(kind: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Names allowed at a place in a nested model."""
    current: Any = kind
    for part in location:
        if isinstance(part, int):
            continue
        current = _model_in(current.model_fields[part].annotation) or current
    return sorted(current.model_fields)


def _faults_of_entry(entry: dict[str, Any], model: ModelConfig, where: str) -> list[str]:
    faults = []
    if entry.get("name") != model.model:
        faults.append(f"{where}.name: must be the model's name {model.model!r} (found {entry.get('name')!r})")
    if entry.get("route_prefix") != MODEL_ROUTE + model.model:
        wanted = MODEL_ROUTE + model.model
        faults.append(f"{where}.route_prefix: must be {wanted!r} (found {entry.get('route_prefix')!r})")
    return faults


def _faults_between(models: list[ModelConfig]) -> list[str]:
    faults = []
    first_of_device: dict[str, ModelConfig] = {}
    for model in models:
        settings = model.device.to_settings()
        first = first_of_device.setdefault(settings.device, model)
        if (theirs := first.device.to_settings()) != settings:
            faults.append(
                f"device {settings.device}: models {first.model!r} and {model.model!r} disagree on what all models of "
                f"a device share ({theirs.differences(settings)}): state it once and refer to it by a YAML anchor"
            )
    return faults


def _check_repository(model: ModelConfig) -> None:
    repository = model.folder.parent
    if not repository.is_dir():
        raise RepositoryMissingError(
            f"there is no model repository at {repository}: 'make models' (python -m split_tool zoo --out "
            f"{model.repository}) makes one with example models"
        )
    if not (model.folder / PLAN_FILE).is_file():
        raise RepositoryMissingError(
            f"model {model.model!r} has no split plan at {model.folder}: make it with 'python -m split_tool split "
            f"MODEL.onnx --out {model.folder}' (example models: python -m split_tool zoo --out {model.repository})"
        )
