"""What a configuration asks for, and whether this machine has it."""

from __future__ import annotations

import os

import msgspec
import psutil

from deployments.runtime.backends.table import backend_of
from deployments.runtime.errors import RuntimeServingError
from deployments.runtime.memory_budget import budget_bytes
from deployments.runtime.settings import DeviceSettings
from serve_app.config import ServerConfig
from serve_app.doctor.finding import Finding, broken_by
from serve_app.errors import PortInUseError
from serve_app.sections import ModelConfig
from serve_app.server import check_port_is_free, reachable
from split_tool.errors import SplitToolError
from split_tool.plan import WHOLE_MODEL_FILE, SplitPlan

_MIB = 1 << 20


def check_configuration(config: ServerConfig) -> list[Finding]:
    """Ports, devices, models and memory of a file that has passed ``load_config``; reads every model file once."""
    devices = config.devices
    findings = _check_ports(config)
    for device in devices.values():
        findings += _check_cores(device, [other for other in devices.values() if other is not device])
    needs: dict[str, dict[str, int]] = {name: {} for name in devices}
    for model in config.models:
        finding, block_bytes = _check_model(model)
        findings.append(finding)
        for name, need_bytes in _needs(model, block_bytes):
            needs[name][model.model] = needs[name].get(model.model, 0) + need_bytes
    return findings + [_check_memory(devices[name], need) for name, need in needs.items()]


def _check_ports(config: ServerConfig) -> list[Finding]:
    wanted = [(config.host, config.port, "http_options.port")]
    if config.gateway.grpc_port is not None:
        wanted.append((config.gateway.grpc_host, config.gateway.grpc_port, "grpc_port in the gateway's args"))
    findings = []
    for host, port, setting in wanted:
        try:
            check_port_is_free(reachable(host), port, setting)
        except PortInUseError as error:
            findings.append(broken_by("ports", f"{host}:{port}", error))
        else:
            findings.append(Finding(topic="ports", subject=f"{host}:{port}", state="ok", text=f"free ({setting})"))
    return findings


def _check_cores(device: DeviceSettings, others: list[DeviceSettings]) -> list[Finding]:
    if device.cores is None or not hasattr(os, "sched_getaffinity"):
        return []
    here = os.sched_getaffinity(0)
    finding = Finding(topic="devices", subject=device.device, state="ok", text=f"cores {list(device.cores)} are there")
    if missing := sorted(set(device.cores) - here):
        text, fix = f"cores {missing} are not there", f"cores: take some of {sorted(here)}"
        return [msgspec.structs.replace(finding, state="broken", text=text, fix=fix)]
    if shared := [other.device for other in others if set(device.cores) & set(other.cores or ())]:
        text = f"shares cores with {', '.join(shared)}: their turns slow each other down"
        return [msgspec.structs.replace(finding, state="note", text=text, fix="give each device cores of its own")]
    return [finding]


def _check_model(model: ModelConfig) -> tuple[Finding, tuple[int, ...]]:
    """Whether the model can be served on its devices, and the bytes of device memory that each of its blocks takes."""
    settings, stored = model.to_settings(), model.stored()
    device = settings.device
    finding = Finding(topic="models", subject=model.model, state="ok", text="")
    if not stored.is_split:
        text = "not split" + (": served whole, and split beside that" if device.kind == "cpu" else ": served whole")
        size = (stored.folder / WHOLE_MODEL_FILE).stat().st_size
        fix = f"python -m split_tool split {stored.folder / WHOLE_MODEL_FILE} --out FOLDER, before it is served"
        return msgspec.structs.replace(finding, state="note", text=text, fix=fix), (size,)
    is_split = bool(settings.groups) or device.sharing.preemption != "never"
    backend = backend_of(device)
    try:
        plan = SplitPlan.load(stored.folder)
        plan.check_files(stored.folder)
        if is_split:
            backend.check_plan(plan, stored.folder, device)
        block_bytes = backend.memory_bytes(plan, stored.folder, device, is_split=is_split)
    except (SplitToolError, RuntimeServingError) as error:
        return broken_by("models", model.model, error), ()
    blocks = f"{len(plan.blocks)} blocks" if is_split else "the whole model"
    devices = ", ".join(dict.fromkeys(each.to_settings().device for each in model.all_devices))
    return msgspec.structs.replace(finding, text=f"{blocks} for {devices}, plan and files agree"), block_bytes


def _needs(model: ModelConfig, block_bytes: tuple[int, ...]) -> list[tuple[str, int]]:
    """Names of devices, and the bytes that the model takes of each."""
    if groups := model.to_settings().groups:
        return [(group.device.device, sum(block_bytes[group.first_block : group.end_block])) for group in groups]
    replicas = model.replicas_per_device if model.devices else 1
    return [(device.to_settings().device, replicas * sum(block_bytes)) for device in model.all_devices]


def _check_memory(device: DeviceSettings, need: dict[str, int]) -> Finding:
    budget, total = budget_bytes(device), sum(need.values())
    models = ", ".join(f"{name} {size / _MIB:.0f}" for name, size in sorted(need.items(), key=lambda item: -item[1]))
    finding = Finding(topic="memory", subject=device.device, state="ok", text="")
    if budget is not None and total > budget:
        text = f"models take {total / _MIB:.0f} MiB of {budget / _MIB:.0f} ({models}): the last will be refused"
        fix = "serve fewer models on it, or raise memory_mb if it has more"
        return msgspec.structs.replace(finding, state="broken", text=text, fix=fix)
    free = psutil.virtual_memory().available
    if device.kind == "cpu" and total > free:
        text = f"models take {total / _MIB:.0f} MiB ({models}), the machine has {free / _MIB:.0f} MiB left"
        return msgspec.structs.replace(
            finding, state="note", text=text, fix="serve fewer models, or end something else"
        )
    bound = "no bound stated" if budget is None else f"of {budget / _MIB:.0f} MiB"
    return msgspec.structs.replace(finding, text=f"models take {total / _MIB:.0f} MiB ({models}), {bound}")
