"""The application builders that ``config.yaml`` names. Plain classes become Serve deployments
here and in ``model_application``.

Serve reads the annotations of a builder as they stand to make typed arguments: they are not postponed in this file.
"""

from ray import serve
from ray.serve import Application, Deployment

from serve_app.gateway import Gateway
from serve_app.model_application import LOGGING, model_application
from serve_app.sections import GatewayConfig, ModelConfig


def model(args: ModelConfig) -> Application:
    """The application of one model: ``import_path: serve_app.app:model``."""
    return model_application(args, is_declared=True)


def gateway(args: GatewayConfig) -> Application:
    """The application at ``/``: ``import_path: serve_app.app:gateway``."""
    deployment: Deployment = serve.deployment(
        name="Gateway",
        logging_config=LOGGING,
        max_ongoing_requests=1000,
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_timeout_s=10.0,  # HTTP drains, then gRPC: more than grpc_server.DRAIN_LIMIT_S
        graceful_shutdown_wait_loop_s=0.5,
    )(serve.ingress()(Gateway))
    application: Application = deployment.bind(args)
    return application
