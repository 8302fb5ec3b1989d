"""What is served and measured: the models of one device, as a configuration file states them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from benchmarks.load import config_file
from benchmarks.serve.errors import SubjectError
from deployments.runtime.backends.providers import PROVIDERS
from deployments.runtime.settings import DeviceSettings
from serve_app.config import MODEL_IMPORT_PATH, load_config
from serve_app.protocol import model_metadata
from split_tool.plan import WHOLE_MODEL_FILE, SplitPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The models of one device.

    Attributes:
        config: The configuration file that our server is started with.
        device: The device, its mode being whatever the file says.
        plans: Model name -> its split plan.
        files: Model name -> its whole ONNX file, for those who do not split.
        alpha: Model name -> the multiple of its isolated time in which it should be answered.
        margin: Model name -> the share of that which is kept for longer turns.
        margin_s: Model name -> the seconds of that which are kept for the way to and from the client.
    """

    config: Path
    device: DeviceSettings
    plans: dict[str, SplitPlan]
    files: dict[str, Path]
    alpha: dict[str, float]
    margin: dict[str, float]
    margin_s: dict[str, float]

    @property
    def metadata(self) -> dict[str, Any]:
        """What a server of the protocol says about each model; open axes as its plan was asked to be measured."""
        return {
            model: msgspec.to_builtins(model_metadata(_closed(plan), name=model, versions=("1",)))
            for model, plan in self.plans.items()
        }

    @property
    def is_pinned(self) -> bool:
        """Inference of every competitor has the same processor, and nothing else has it."""
        return self.device.kind != "cpu" or self.device.cores is not None

    def leave_cores_to_device(self) -> None:
        """Keep this process, and all that it starts from here on, off the device's cores.

        Raises:
            SubjectError: If no core is left.
        """
        if self.device.cores is None or not hasattr(os, "sched_setaffinity"):
            return
        others = os.sched_getaffinity(0) - set(self.device.cores)
        if not others:
            raise SubjectError(
                f"the device has core {', '.join(map(str, self.device.cores))}, and this process may use no other: "
                "give it one more core, or measure with --unpinned"
            )
        os.sched_setaffinity(0, others)


def load_subject(config: Path, out: Path, *, models: Sequence[str] = (), is_pinned: bool = True) -> Subject:
    """The models in a configuration file; a copy of it with only these goes into ``out``.

    Args:
        config: The file.
        out: Folder of the results.
        models: Only these; empty: all.
        is_pinned: False takes the device's cores out of the copy.

    Raises:
        SubjectError: If a model is not in the file, or they are not all of one device.
        ServeAppError: If the file, or a model in it, is wrong.
        SplitToolError: If a model has no split plan.
    """
    checked = load_config(config)
    known = [model.model for model in checked.models]
    if unknown := set(models) - set(known):
        raise SubjectError(f"{config} has no model {', '.join(sorted(unknown))}: it has {', '.join(known)}")
    chosen = [model for model in checked.models if not models or model.model in models]
    devices = {model.device.to_settings().device for model in chosen}
    if len(devices) != 1:
        raise SubjectError(f"{config} has models on {', '.join(sorted(devices))}: choose those of one with --model")
    if chosen[0].device.kind not in PROVIDERS:
        raise SubjectError(f"device {devices.pop()} is none of ONNX Runtime's: other servers could not run the models")
    applications = []
    for entry in checked.raw["applications"]:
        if entry["import_path"] == MODEL_IMPORT_PATH:
            if models and entry["name"] not in models:
                continue
            if not is_pinned:
                entry["args"]["device"] = entry["args"].get("device", {}) | {"cores": None}
        applications.append(entry)
    copy = out / "config.yaml"
    copy.write_text(yaml.safe_dump(checked.raw | {"applications": applications}, sort_keys=False))
    stored = {model.model: model.stored() for model in chosen}
    device = chosen[0].device.to_settings()
    return Subject(
        config=copy,
        device=device if is_pinned else msgspec.structs.replace(device, cores=None),
        plans={name: SplitPlan.load(each.folder) for name, each in stored.items()},
        files={name: each.folder / WHOLE_MODEL_FILE for name, each in stored.items()},
        alpha={model.model: model.qos.alpha for model in chosen},
        margin={model.model: model.qos.margin for model in chosen},
        margin_s={model.model: model.qos.margin_ms / 1e3 for model in chosen},
    )


def _closed(plan: SplitPlan) -> SplitPlan:
    shapes = plan.request.input_shapes
    inputs = (msgspec.structs.replace(spec, shape=shapes.get(spec.name, spec.shape)) for spec in plan.inputs)
    return msgspec.structs.replace(plan, inputs=tuple(inputs))


def write_config(folder: Path, out: Path) -> Path:
    """A configuration file, written into ``out``, for all split models in ``folder`` on one thread of core 0.

    Raises:
        SubjectError: If there are none.
    """
    models = sorted(path.parent.name for path in folder.glob("*/plan.json"))
    if not models:
        raise SubjectError(
            f"no split models in {folder}: make them with 'python -m split_tool split MODEL.onnx --out {folder}/NAME'"
        )
    device = {"kind": "cpu", "threads": 1, "cores": [0]}
    stated = {model: {"device": device} for model in models}
    return config_file.write_config(out / "models.yaml", stated, repository=folder, gateway={})
