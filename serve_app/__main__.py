"""Command line of the server: ``python -m serve_app run | check | doctor config.yaml``."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from rich.console import Console

from deployments.runtime.backends.providers import PROVIDERS
from serve_app.config import ServerConfig, load_config
from serve_app.errors import ServeAppError, StartFailedError
from serve_app.server import Server

DEFAULT_CONFIG = Path("config.yaml")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code: 1 for a known fault, told in one message."""
    parser = argparse.ArgumentParser(prog="serve_app", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="check the configuration, start the server, wait for Ctrl-C")
    check = commands.add_parser("check", help="check the configuration and say what it serves")
    for command in (run, check):
        command.add_argument("config", nargs="?", default=DEFAULT_CONFIG, type=Path)
        command.add_argument("--mode", help="mode of every device, instead of the one in the file")
        command.add_argument("--port", type=int, help="HTTP port, instead of the one in the file")
        command.add_argument("--grpc-port", type=int, help="gRPC port, instead of the one in the file")
    run.add_argument("--no-haproxy", action="store_true", help="use Serve's own HTTP proxy (slower)")
    run.add_argument("--ray-dashboard", action="store_true", help="start Ray's dashboard as well (port 8265)")
    doctor = commands.add_parser("doctor", help="say what is wrong with this machine and the configuration")
    doctor.add_argument("config", nargs="?", type=Path, help="default: config.yaml, if it is there")
    doctor.add_argument("--json", action="store_true", help="print the findings as a JSON list")
    options = parser.parse_args(arguments)
    if options.command == "doctor":
        return _doctor(options.config, as_json=options.json)
    try:
        config = load_config(options.config, mode=options.mode, port=options.port, grpc_port=options.grpc_port)
        if options.command == "check":
            _describe(config)
            return 0
        _check_devices(config)
        use_haproxy = False if options.no_haproxy else None
        return _run(config, use_haproxy=use_haproxy, has_ray_dashboard=options.ray_dashboard)
    except ServeAppError as error:
        print(f"serve_app: {error}", file=sys.stderr)
        return 1


def _doctor(config: Path | None, *, as_json: bool) -> int:
    from serve_app.doctor import examination  # it loads more than the other commands need

    if config is None and DEFAULT_CONFIG.exists():
        config = DEFAULT_CONFIG
    findings = examination.examine(config)
    if as_json:
        print(examination.as_json(findings))
    else:
        examination.print_findings(findings, Console(width=None if sys.stdout.isatty() else 120))
    return 1 if any(finding.state == "broken" for finding in findings) else 0


def _check_devices(config: ServerConfig) -> None:
    """Fail now where a device cannot be used: Ray would wait for a GPU that never comes.

    Raises:
        StartFailedError: With the reason and what to do.
    """
    for name, device in config.devices.items():
        if device.kind == "cpu" or device.kind not in PROVIDERS:
            continue
        from serve_app.doctor.probe import reason_not_usable  # it loads more than processors need

        if (reason := reason_not_usable(device)) is not None:
            raise StartFailedError(f"device {name} cannot be used: {reason}. {PROVIDERS[device.kind].remedy}")


def _describe(config: ServerConfig) -> None:
    print(f"http://{config.host}:{config.port} serves {len(config.models)} models:")
    if config.gateway.grpc_port is not None:
        print(f"  gRPC: {config.gateway.grpc_host}:{config.gateway.grpc_port}")
    for model in config.models:
        stored = model.stored()
        groups = model.to_settings().groups
        devices = ", ".join(dict.fromkeys(device.to_settings().device for device in model.all_devices))
        layout = f", chained in {len(groups)} groups" if groups else ""
        print(
            f"  {model.model}: device {devices}, mode {model.all_devices[0].mode}, version {stored.version}, "
            f"{stored.folder}{layout}"
        )


def _run(config: ServerConfig, *, use_haproxy: bool | None, has_ray_dashboard: bool) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: shells start background jobs with it ignored
        signal.signal(number, _raise_interrupt)
    console = Console(stderr=True)
    with Server(config, use_haproxy=use_haproxy, has_ray_dashboard=has_ray_dashboard) as server:
        try:
            with console.status("starting Ray Serve") as status:

                def report(states: Mapping[str, str]) -> None:
                    status.update("starting: " + ", ".join(f"{name} {state}" for name, state in states.items()))

                server.wait_until_ready(report)
            proxy = "HAProxy" if server.uses_haproxy else "Serve's own proxy"
            print(f"ready: {server.url} ({', '.join(model.model for model in config.models)}; {proxy})", flush=True)
            if config.gateway.grpc_port is not None:
                print(f"gRPC: {config.gateway.grpc_host}:{config.gateway.grpc_port}", flush=True)
            print(f"log: {server.log_path}\nCtrl-C ends the server", flush=True)
            code = server.wait()
            raise_text = f"Serve ended by itself with code {code}; its log was {server.log_path}"
            print(f"serve_app: {raise_text}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            console.print("stopping")
            return 0


def _raise_interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
