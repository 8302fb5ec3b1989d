"""All checks in order, and their findings for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from deployments.runtime.settings import DeviceSettings
from serve_app.config import load_config
from serve_app.doctor.configuration import check_configuration
from serve_app.doctor.finding import Finding
from serve_app.doctor.machine import check_providers, check_system, check_versions
from serve_app.errors import ServeAppError

_MARKS = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "broken": "[bold red]broken[/]"}


def examine(config_path: Path | None) -> list[Finding]:
    """Everything that can be found out without starting the server; a few seconds.

    Args:
        config_path: The configuration; None: look at the machine alone.
    """
    devices: list[DeviceSettings] = []
    findings: list[Finding] = []
    if config_path is not None:
        try:
            config = load_config(config_path)
        except ServeAppError as error:
            fix = "see docs/configuration.md"
            findings = [Finding(topic="config", subject=str(config_path), state="broken", text=str(error), fix=fix)]
        else:
            devices = list(config.devices.values())
            text = f"{len(config.models)} models"
            findings = [Finding(topic="config", subject=str(config_path), state="ok", text=text)]
            findings += check_configuration(config)
    return check_versions() + check_providers(devices) + check_system() + findings


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    """A table, and one line that says how it stands."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("", "what", "state", "found"):
        table.add_column(heading, overflow="fold")
    for topic, group in groupby(findings, lambda finding: finding.topic):
        for index, each in enumerate(group):
            text = each.text if not each.fix else f"{each.text}\n[bold]->[/] {each.fix}"
            table.add_row(f"[bold]{topic}[/]" if index == 0 else "", each.subject, _MARKS[each.state], text)
    console.print(table)
    num_broken = sum(finding.state == "broken" for finding in findings)
    console.print(f"\n{num_broken} broken" if num_broken else "\nnothing is broken")


def as_json(findings: Sequence[Finding]) -> str:
    """A JSON list of findings."""
    return msgspec.json.format(msgspec.json.encode(findings), indent=2).decode()
