"""Who is measured, and how each is started: a command that prints ``ready:`` and ends on SIGINT."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from benchmarks.serve.errors import PeerMissingError
from benchmarks.serve.peers.spec import PeerSpec
from benchmarks.serve.subject import Subject
from deployments.runtime.backends.providers import PROVIDERS
from deployments.scheduling.modes import Mode, find_mode
from serve_app.server import free_port, haproxy_environment, has_haproxy

HOST = "127.0.0.1"
LIT_SERVE = Path(__file__).parent / "peers" / "lit_serve.py"
SEVERAL_THREADS = 4

Kind = Literal["ours", "ray_serve", "lit_serve"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Competitor:
    """One way to serve the models.

    Attributes:
        name: What it is called in tables.
        kind: Which program it is.
        workers: Requests of one model that run at a time; ours: one.
        what: One line for people.
    """

    name: str
    kind: Kind
    workers: int = 1
    what: str

    @property
    def mode(self) -> Mode | None:
        """How our device is shared; None for others."""
        return find_mode(self.name) if self.kind == "ours" else None


_OURS = {
    "slo": "this system: blocks, as few late requests as possible",
    "fifo": "this system: whole models, first come, first served",
    "parallel": "this system: whole models, all at once, shared by the operating system",
    "dlir": "this system: the paper's policy, split where it pays",
    "oyst": "this system: the paper's policy, always split",
    "bnst": "this system: the paper's policy, never split",
}
COMPETITORS: Mapping[str, Competitor] = {
    each.name: each
    for each in (
        *(Competitor(name=name, kind="ours", what=what) for name, what in _OURS.items()),
        Competitor(name="ray-serve", kind="ray_serve", what="plain Ray Serve, one thread per model"),
        Competitor(
            name=f"ray-serve-{SEVERAL_THREADS}",
            kind="ray_serve",
            workers=SEVERAL_THREADS,
            what=f"plain Ray Serve, {SEVERAL_THREADS} threads per model",
        ),
        Competitor(name="litserve", kind="lit_serve", what="LitServe, one worker per model"),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One start of one competitor.

    Attributes:
        command: Program and arguments.
        environment: Its whole environment.
        url: Where HTTP will answer.
        grpc: HOST:PORT of gRPC; ours only.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    url: str
    grpc: str


def peer_spec(subject: Subject, *, port: int = 0, workers: int = 1) -> PeerSpec:
    """What a server that does not split is told: the same files, threads and cores as ours."""
    device = subject.device
    return PeerSpec(
        host=HOST,
        port=port,
        models={model: str(path) for model, path in subject.files.items()},
        provider=PROVIDERS[device.kind].name,
        session_threads=device.threads,
        workers=workers,
        cores=None if device.cores is None else list(device.cores),
    )


def check_installed(competitor: Competitor, peer_python: Path) -> None:
    """Raise if the competitor cannot run here.

    Raises:
        PeerMissingError: The message says how to install it.
    """
    if competitor.kind == "lit_serve" and not peer_python.exists():
        raise PeerMissingError(f"{competitor.name} is left out: {peer_python} is missing, 'make peers' installs it")


def prepare_launch(competitor: Competitor, subject: Subject, folder: Path, peer_python: Path) -> Launch:
    """A start on free ports.

    Args:
        competitor: Who.
        subject: What it serves.
        folder: An empty folder for files of this run.
        peer_python: The Python of the environment with the peers in it.
    """
    port, grpc_port = free_port(), free_port()
    environment = dict(os.environ)
    if competitor.kind == "ours":
        command = [sys.executable, "-m", "serve_app", "run", str(subject.config), "--mode", competitor.name]
        command += ["--port", str(port), "--grpc-port", str(grpc_port)]
    else:
        spec_path = folder / "spec.json"
        spec_path.write_text(json.dumps(asdict(peer_spec(subject, port=port, workers=competitor.workers))))
        if competitor.kind == "ray_serve":
            command = [sys.executable, "-m", "benchmarks.serve.peers.ray_serve", str(spec_path)]
            environment |= _ray_environment(folder)
        else:
            command = [str(peer_python), str(LIT_SERVE), str(spec_path)]
    return Launch(
        command=tuple(command),
        environment=environment,
        url=f"http://{HOST}:{port}",
        grpc=f"{HOST}:{grpc_port}",
    )


def _ray_environment(folder: Path) -> dict[str, str]:
    """The same proxy and the same priority of processes as our server has."""
    environment = {"RAY_SERVE_ENABLE_HA_PROXY": "1" if has_haproxy() else "0", "RAY_worker_niceness": "0"}
    return environment | (haproxy_environment(folder) if has_haproxy() else {})
