"""What a model's replica says of itself, and what decides whether it would be the same if it were loaded again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from deployments.runtime.model_settings import ModelSettings
from serve_app.protocol.check import check_carried
from serve_app.protocol.errors import UnsupportedFeatureError
from serve_app.sections import ModelConfig
from split_tool.plan import PLAN_FILE, WHOLE_MODEL_FILE, SplitPlan, sha256_of_file


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model as a replica serves it.

    Attributes:
        version: Its version.
        fingerprint: See ``fingerprint``.
        config: Its configuration.
        is_declared: The configuration is an entry of the server's configuration file.
        remark: What the index tells beside the state; empty if there is nothing to tell.
    """

    version: str
    fingerprint: str
    config: ModelConfig
    is_declared: bool
    remark: str


def content_sha256(folder: Path) -> str:
    """Hash of a model's plan, which has hashes of all files, or of the whole model where there is no plan."""
    plan = folder / PLAN_FILE
    return sha256_of_file(plan if plan.is_file() else folder / WHOLE_MODEL_FILE)


def fingerprint(settings: ModelSettings, config: ModelConfig, content: str) -> str:
    """The same for the same settings and files; ``content`` is what ``content_sha256`` says of the settings' folder."""
    stated = msgspec.json.encode(settings) + config.model_dump_json().encode()
    return hashlib.sha256(stated + content.encode()).hexdigest()


def check_servable(plan: SplitPlan) -> None:
    """Pass if the protocol can carry everything that the model takes and gives.

    Raises:
        UnsupportedFeatureError: It names the input or output, and its type.
    """
    for spec in plan.inputs:
        check_carried("input", spec)
    for spec in plan.outputs:
        check_carried("output", spec)
        if spec.kind == "optional":
            raise UnsupportedFeatureError(
                f"output '{spec.name}' of the model is optional; the protocol has no way to say that it is absent"
            )
