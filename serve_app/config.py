"""``config.yaml``, typed and checked as a whole before anything starts.

The file is Ray Serve's own configuration file; this module checks what stands in ``args`` of the entries whose
``import_path`` is one of ours, and what the entries must agree on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from ray.serve.schema import ServeDeploySchema

from deployments.runtime.errors import LayoutRefusedError
from deployments.runtime.settings import DeviceSettings
from serve_app.errors import ConfigError
from serve_app.repository import StoredModel
from serve_app.sections import GatewayConfig, LiveConfig, ModelConfig, Section, StoredModelConfig
from split_tool.errors import SplitToolError

MODEL_IMPORT_PATH = "serve_app.app:model"
GATEWAY_IMPORT_PATH = "serve_app.app:gateway"
MODEL_ROUTE = "/v2/models/"

Config = TypeVar("Config", bound=BaseModel)


class ServerConfig(Section):
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

    @property
    def devices(self) -> dict[str, DeviceSettings]:
        """Every device that a model of the file runs on, by name."""
        stated = [device.to_settings() for model in self.models for device in model.all_devices]
        return {device.device: device for device in stated}

    @property
    def device_cores(self) -> set[int]:
        """The cores that devices are pinned to, also those of models that are loaded on request."""
        return {
            core
            for stated in (*self.models, self.gateway.models)
            for device in stated.all_devices
            for core in device.cores or ()
        }


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
        ServeAppError: If a model is not there (see ``serve_app.repository``).
    """
    raw = _read(path)
    entries = raw.get("applications")
    entries = entries if isinstance(entries, list) else []
    faults = _faults_of_serve_schema(raw)
    models: list[ModelConfig] = []
    stated: list[tuple[str, DeviceSettings]] = []
    live: list[tuple[str, DeviceSettings]] = []
    gateway: GatewayConfig | None = None
    has_gateway = False
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            continue
        where = f"applications[{index}]"
        if entry.get("import_path") == MODEL_IMPORT_PATH:
            if mode is not None and isinstance(entry.get("args"), dict):
                entry["args"] = _with_mode(entry["args"], mode)
            model, found = _validate(ModelConfig, entry.get("args"), f"{where}.args")
            faults += found
            if model is not None:
                models.append(model)
                stated += [(f"model {model.model!r}", each.to_settings()) for each in model.all_devices]
                faults += _faults_of_entry(entry, model, where)
                device, found = _live_device(entry, model, where)
                faults += found
                live += [(f"user_config of {model.model!r}", each) for each in device]
        elif entry.get("import_path") == GATEWAY_IMPORT_PATH:
            has_gateway = True
            entry["args"] = _gateway_args(entry.get("args"), mode, grpc_port)
            gateway, found = _validate(GatewayConfig, entry["args"], f"{where}.args")
            faults += found
    faults += _faults_between(stated) + _faults_between(live)
    if not models and gateway is None and not faults:
        faults.append(f"no entry has import_path {MODEL_IMPORT_PATH}: there is nothing to serve")
    if not has_gateway and not faults:
        faults.append(f"no entry has import_path {GATEWAY_IMPORT_PATH}: /v2/health would not answer; add one at /")
    if faults:
        raise ConfigError(f"{path}:\n  " + "\n  ".join(faults))
    for model in models:
        try:
            model.to_settings()
        except (LayoutRefusedError, SplitToolError) as error:
            raise ConfigError(f"{path}: {error}") from error
    http = {"host": "127.0.0.1", "port": 8000} | (raw.get("http_options") or {})
    if port is not None:
        http["port"] = port
    raw["http_options"] = http
    assert gateway is not None
    return ServerConfig(raw=raw, models=tuple(models), host=http["host"], port=http["port"], gateway=gateway)


def stored_config(stored: StoredModel, defaults: StoredModelConfig, repository: str) -> ModelConfig:
    """The configuration of a model in the repository: its ``config.yaml`` over ``defaults``, key by key.

    Raises:
        ConfigError: If the file is wrong, or names another version than the folder's that it is in.
    """
    values: dict[str, Any] = {name: getattr(defaults, name) for name in defaults.model_fields_set}
    if stored.config_path is not None:
        found, faults = _validate(StoredModelConfig, _read(stored.config_path), "")
        if found is None:
            raise ConfigError(f"{stored.config_path}:\n  " + "\n  ".join(faults))
        values |= {name: getattr(found, name) for name in found.model_fields_set}
    return ModelConfig(model=stored.model, repository=repository, **values)


def live_config(user_config: object, stated: DeviceSettings) -> LiveConfig:
    """``user_config`` of a model whose entry states ``stated`` for its device.

    Raises:
        ConfigError: With all that is wrong in it.
    """
    live, _, faults = _validate_live(user_config, stated, "user_config")
    if live is None:
        raise ConfigError("\n".join(faults))
    return live


def _validate_live(
    value: object, stated: DeviceSettings, where: str
) -> tuple[LiveConfig | None, DeviceSettings | None, list[str]]:
    """``user_config``, what it makes of the device if it says anything of it, and what is wrong in it."""
    live, faults = _validate(LiveConfig, value, where)
    if live is None:
        return None, None, faults
    try:
        return live, live.device_over(stated), []
    except ValueError as error:
        return None, None, [f"{where}.device: {error}"]


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no YAML: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} must be a mapping, as docs/configuration.md has it")
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
    for index, options in enumerate(_deployments(entry)):
        if model.devices and not {"num_replicas", "autoscaling_config"}.isdisjoint(options):
            faults.append(
                f"{where}.deployments[{index}]: a model with devices has as many replicas as they and "
                "replicas_per_device say; leave num_replicas and autoscaling_config out"
            )
    return faults


def _deployments(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The options of the entry's deployments, without what is none."""
    deployments = entry.get("deployments")
    return [each if isinstance(each, dict) else {} for each in (deployments if isinstance(deployments, list) else [])]


def _live_device(entry: dict[str, Any], model: ModelConfig, where: str) -> tuple[list[DeviceSettings], list[str]]:
    """What the ``user_config`` of the entry's deployments make of the device, and what is wrong in them."""
    found: list[DeviceSettings] = []
    faults: list[str] = []
    for index, options in enumerate(_deployments(entry)):
        if (user_config := options.get("user_config")) is None:
            continue
        place = f"{where}.deployments[{index}].user_config"
        for stated in model.all_devices:
            _, device, wrong = _validate_live(user_config, stated.to_settings(), place)
            faults += [each for each in wrong if each not in faults]
            found += [] if device is None else [device]
    return found, faults


def _with_mode(args: dict[str, Any], mode: str) -> dict[str, Any]:
    """What the entry of a model says, or one of its groups, with the mode in place of its devices'."""
    device, devices = args.get("device"), args.get("devices")
    args = args | {"device": (device if isinstance(device, dict) else {}) | {"mode": mode}}
    if isinstance(devices, list):
        args["devices"] = [each | {"mode": mode} if isinstance(each, dict) else each for each in devices]
    chained = args.get("chained")
    if isinstance(chained, dict) and isinstance(chained.get("groups"), list):
        groups = [_with_mode(each, mode) if _has_device(each) else each for each in chained["groups"]]
        args["chained"] = chained | {"groups": groups}
    return args


def _has_device(group: object) -> bool:
    return isinstance(group, dict) and isinstance(group.get("device"), dict)


def _gateway_args(args: Any, mode: str | None, grpc_port: int | None) -> Any:
    """The ``args`` of the gateway with what the command line replaces."""
    if not isinstance(args, dict | None):
        return args
    args = dict(args or {})
    if grpc_port is not None:
        args["grpc_port"] = grpc_port
    if mode is not None and isinstance(args.get("models"), dict) and {"device", "devices"} & set(args["models"]):
        args["models"] = _with_mode(args["models"], mode)
    return args


def _faults_between(stated: list[tuple[str, DeviceSettings]]) -> list[str]:
    """Where entries, each with its name, disagree on what is shared by all models of a device."""
    faults = []
    first_of_device: dict[str, tuple[str, DeviceSettings]] = {}
    for name, settings in stated:
        first_name, first = first_of_device.setdefault(settings.device, (name, settings))
        if difference := first.differences(settings):
            faults.append(
                f"device {settings.device}: {first_name} and {name} disagree on what all models of a device share "
                f"({difference}): state it once and refer to it by a YAML anchor"
            )
    return faults
