"""The Serve application of one model. The plain classes become deployments here."""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve import Application, Deployment

from deployments.runtime.block_groups import BlockGroup
from deployments.runtime.group_replica import GroupReplica
from deployments.runtime.settings import DeviceSettings
from serve_app.model_directory import MODEL_DEPLOYMENT
from serve_app.model_ingress import ModelIngress
from serve_app.placement import actor_options
from serve_app.sections import ModelConfig

# A request that waits in Serve's router is invisible to the allocator: let all of them in, the allocator bounds them.
_MAX_ONGOING = 10_000
# a line per request took a third of the replica's own time per request, making one and dropping it takes a tenth
LOGGING = {"enable_access_log": False, "log_level": "WARNING"}


def model_application(config: ModelConfig, *, is_declared: bool) -> Application:
    """The application of one model: one deployment, or one for each group of its blocks.

    Args:
        config: The model.
        is_declared: An entry of the configuration file says so, not what lies beside the model in the repository.
    """
    settings = config.to_settings()
    later = [
        _deployment(group_deployment(group), GroupReplica, config, group.device).bind(settings, index)
        for index, group in enumerate(settings.groups)
        if index > 0
    ]
    first = _deployment(MODEL_DEPLOYMENT, serve.ingress()(ModelIngress), config, settings.device)
    if config.devices:
        first = first.options(num_replicas=config.num_replicas)
    application: Application = first.bind(settings, config, *later, is_declared=is_declared)
    return application


def group_deployment(group: BlockGroup) -> str:
    """Name of the deployment of a group that is not the first."""
    return f"Blocks-{group.first_block}-{group.end_block - 1}"


def _deployment(name: str, replica: Any, config: ModelConfig, device: DeviceSettings) -> Deployment:
    deployment: Deployment = serve.deployment(
        name=name,
        logging_config=LOGGING,
        max_ongoing_requests=_MAX_ONGOING,
        max_queued_requests=2 * _MAX_ONGOING,
        max_surge_percent=100,  # a new version answers before the old one leaves
        ray_actor_options=actor_options(config, device),
        health_check_period_s=1.0,
        health_check_timeout_s=10.0,
        graceful_shutdown_timeout_s=30.0,  # what an old version has to answer all that it has taken
        graceful_shutdown_wait_loop_s=0.5,
    )(replica)
    return deployment
