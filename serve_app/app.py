"""The application builders that ``config.yaml`` names. Plain classes become Serve deployments here and nowhere else.

Serve reads the annotations of a builder as they stand to make typed arguments: they are not postponed in this file.
"""

from ray import serve
from ray.serve import Application, Deployment

from serve_app.config import GatewayConfig, ModelConfig
from serve_app.gateway import Gateway
from serve_app.model_ingress import ModelIngress

# A request that waits in Serve's router is invisible to the allocator: let all of them in, the allocator bounds them.
_MAX_ONGOING = 10_000
_LOGGING = {"enable_access_log": False}  # a line per request took a third of the replica's own time per request
_CPU_OPTIONS = {"num_cpus": 0}  # the allocator hands the device out, not Ray's bookkeeping
_GPU_OPTIONS = {"num_cpus": 0, "num_gpus": 0.01}  # makes Ray show the GPUs to the replica


def model(args: ModelConfig) -> Application:
    """The application of one model: ``import_path: serve_app.app:model``."""
    deployment: Deployment = serve.deployment(
        name="SplitModel",
        logging_config=_LOGGING,
        max_ongoing_requests=_MAX_ONGOING,
        max_queued_requests=2 * _MAX_ONGOING,
        ray_actor_options=_GPU_OPTIONS if args.device.kind == "cuda" else _CPU_OPTIONS,
        health_check_period_s=1.0,
        health_check_timeout_s=10.0,
        graceful_shutdown_timeout_s=10.0,
        graceful_shutdown_wait_loop_s=0.5,
    )(serve.ingress()(ModelIngress))
    application: Application = deployment.bind(args.to_settings(), args.http)
    return application


def gateway(args: GatewayConfig) -> Application:
    """The application at ``/``: ``import_path: serve_app.app:gateway``."""
    deployment: Deployment = serve.deployment(
        name="Gateway",
        logging_config=_LOGGING,
        max_ongoing_requests=1000,
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_timeout_s=10.0,  # HTTP drains, then gRPC: more than grpc_server.DRAIN_LIMIT_S
        graceful_shutdown_wait_loop_s=0.5,
    )(serve.ingress()(Gateway))
    application: Application = deployment.bind(args)
    return application
