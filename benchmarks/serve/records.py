"""Finished rounds on disk: one line each, so that a long run can be done in pieces."""

from __future__ import annotations

import contextlib
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from benchmarks.load.report import Outcome
from benchmarks.serve.errors import SettingChangedError
from deployments.runtime.messages import Slice

ROUNDS_FILE = "rounds.jsonl"
SETTING_FILE = "setting.json"

Key = tuple[str, float | None, int]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What all rounds in a folder share; rounds of different settings cannot be compared.

    Attributes:
        isolated_s: Isolated time of each model with plain ONNX Runtime, in seconds.
        alpha: Multiple of it in which each model should be answered.
        blocks_s: Block times of each split plan, in seconds.
        margin: Share of the time to a deadline that the server keeps for longer turns; older records lack it.
        margin_s: Seconds of it that it keeps for the way to and from the client; older records lack it.
        planned_s: Isolated time in each split plan, in seconds; older records lack it.
        device: Name of the device.
        is_pinned: Inference of every competitor has the same cores, which nothing else uses.
        workload: The arrivals, in words.
        seconds: Length of a round.
        seed: Of arrivals and inputs.
        via: How requests go to the server: http, grpc or handle.
        machine: Where this was measured.
        versions: Of the packages that decide.
        date: Day of the first round.
    """

    isolated_s: dict[str, float]
    alpha: dict[str, float]
    blocks_s: dict[str, tuple[float, ...]]
    device: str
    is_pinned: bool
    workload: str
    seconds: float
    seed: int
    via: str
    machine: str
    versions: dict[str, str]
    date: str
    margin: dict[str, float] = {}
    margin_s: dict[str, float] = {}
    planned_s: dict[str, float] = {}


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One competitor at one load for one round.

    Attributes:
        competitor: Its name.
        load: Share of the device's time asked for; None: a closed loop.
        number: Of the round; equal numbers had the same arrivals.
        outcomes: How each request went; times in seconds from the start of the round.
        began_s: That start on the monotonic clock, which the slices are in.
        alone_s: Response time of each model with nothing else going on, just before, in seconds.
        largest_difference: From the answers of plain ONNX Runtime, relative; 0.0: bit-identical.
        device_busy: Share of the time that the device's cores were busy, 0 to 1; None where nothing is pinned.
        other_busy: The same for all other cores.
        slices: Turns on the device; empty for servers that have none.
        allocator_s: Processor time that the allocator has used, in seconds; None for servers without one.
    """

    competitor: str
    load: float | None
    number: int
    outcomes: tuple[Outcome, ...]
    began_s: float
    alone_s: dict[str, float]
    largest_difference: float
    device_busy: float | None
    other_busy: float | None
    slices: tuple[Slice, ...]
    allocator_s: float | None

    @property
    def key(self) -> Key:
        """What makes it one of its kind."""
        return (self.competitor, self.load, self.number)


class Records:
    """The results in one folder."""

    def __init__(self, folder: Path) -> None:
        """The folder may be empty; it is made if it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._rounds = folder / ROUNDS_FILE
        self._setting = folder / SETTING_FILE

    @property
    def is_empty(self) -> bool:
        """No round is finished yet."""
        return not self._rounds.exists()

    def rounds(self) -> list[Round]:
        """All finished rounds, in the order in which they were finished."""
        if self.is_empty:
            return []
        return [msgspec.json.decode(line, type=Round) for line in self._rounds.read_bytes().splitlines()]

    def append(self, finished: Round) -> None:
        """Add one round."""
        with self._rounds.open("ab") as file:
            file.write(msgspec.json.encode(finished) + b"\n")

    def setting(self) -> Setting | None:
        """What the rounds share; None if there are none yet."""
        return msgspec.json.decode(self._setting.read_bytes(), type=Setting) if self._setting.exists() else None

    def begin(self, setting: Setting) -> None:
        """Forget everything and begin anew."""
        self._rounds.unlink(missing_ok=True)
        self._setting.write_bytes(msgspec.json.format(msgspec.json.encode(setting), indent=2))

    def check_same(self, setting: Setting) -> Setting:
        """Raise unless rounds of ``setting`` may join those that are there; measured times and dates may differ.

        Returns:
            The setting of those that are there.

        Raises:
            SettingChangedError: It names what differs.
        """
        there = self.setting()
        assert there is not None
        for name in ("device", "is_pinned", "workload", "seconds", "seed", "via", "machine"):
            if getattr(there, name) != getattr(setting, name):
                raise SettingChangedError(
                    f"{self.folder} holds rounds with {name} = {getattr(there, name)!r}, now it is "
                    f"{getattr(setting, name)!r}: choose another folder with --out"
                )
        if set(there.isolated_s) != set(setting.isolated_s):
            raise SettingChangedError(
                f"{self.folder} holds rounds of the models {', '.join(there.isolated_s)}, now they are "
                f"{', '.join(setting.isolated_s)}: choose another folder with --out"
            )
        return there


def describe_machine(num_cores: int) -> str:
    """Processor, number of usable cores and system, in one line."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    return f"{num_cores} cores of {processor}, {platform.system()}, Python {platform.python_version()}"


def package_versions() -> dict[str, str]:
    """Of what decides about times."""
    versions: dict[str, str] = {}
    for package in ("dlir-serve", "ray", "onnxruntime-gpu", "onnxruntime"):
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
