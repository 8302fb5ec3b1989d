"""The Serve application of one model. The plain class becomes a deployment here."""

from __future__ import annotations

from ray import serve
from ray.serve import Application, Deployment

from serve_app.model_directory import MODEL_DEPLOYMENT
from serve_app.model_ingress import ModelIngress
from serve_app.sections import ModelConfig

# A request that waits in Serve's router is invisible to the allocator: let all of them in, the allocator bounds them.
_MAX_ONGOING = 10_000
LOGGING = {"enable_access_log": False}  # a line per request took a third of the replica's own time per request
_CPU_OPTIONS = {"num_cpus": 0}  # the allocator hands the device out, not Ray's bookkeeping
_GPU_OPTIONS = {"num_cpus": 0, "num_gpus": 0.01}  # makes Ray show the GPUs to the replica


def model_application(config: ModelConfig, *, is_declared: bool) -> Application:
    """The application of one model.

    Args:
        config: The model.
        is_declared: An entry of the configuration file says so, not what lies beside the model in the repository.
    """
    deployment: Deployment = serve.deployment(
        name=MODEL_DEPLOYMENT,
        logging_config=LOGGING,
        max_ongoing_requests=_MAX_ONGOING,
        max_queued_requests=2 * _MAX_ONGOING,
        max_surge_percent=100,  # a new version answers before the old one leaves
        ray_actor_options=_GPU_OPTIONS if config.device.kind in ("cuda", "tensorrt") else _CPU_OPTIONS,
        health_check_period_s=1.0,
        health_check_timeout_s=10.0,
        graceful_shutdown_timeout_s=30.0,  # what an old version has to answer all that it has taken
        graceful_shutdown_wait_loop_s=0.5,
    )(serve.ingress()(ModelIngress))
    application: Application = deployment.bind(config.to_settings(), config, is_declared=is_declared)
    return application
