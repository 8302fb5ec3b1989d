"""The ``grpc.aio`` server of a gateway replica: inference, health and reflection on one port."""

from __future__ import annotations

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from serve_app.errors import PortInUseError
from serve_app.grpc_service import SERVICE, InferenceService

DRAIN_LIMIT_S = 5.0
_MIN_PING_INTERVAL_MS = 10_000


class GrpcServer:
    """A running server; lives on the event loop that started it."""

    def __init__(self, server: grpc.aio.Server, health_service: health.aio.HealthServicer, port: int) -> None:
        """Use ``start``."""
        self._server = server
        self._health = health_service
        self.port = port

    @classmethod
    async def start(cls, service: InferenceService, *, host: str, port: int, max_message_bytes: int) -> GrpcServer:
        """A server that accepts calls.

        Several may share the port (SO_REUSEPORT): in a rolling update the new replica listens before the old one has
        left, and connections go to either.

        Args:
            service: What answers.
            host: Where to listen; an IPv6 address in brackets.
            port: The same; 0: any free port, see ``port``.
            max_message_bytes: Largest message in either direction.

        Raises:
            PortInUseError: If the port cannot be had.
        """
        server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 1),
                ("grpc.max_receive_message_length", max_message_bytes),
                ("grpc.max_send_message_length", max_message_bytes),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", _MIN_PING_INTERVAL_MS),
                ("grpc.keepalive_permit_without_calls", 1),
            ]
        )
        server.add_generic_rpc_handlers((service.handler(),))
        health_service = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(health_service, server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        try:
            bound_port = server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise PortInUseError(
                f"gRPC port {port} of {host} cannot be used ({error}): stop that server, or set another grpc_port in "
                "the gateway's args"
            ) from error
        await server.start()
        for name in ("", SERVICE):
            await health_service.set(name, health_pb2.HealthCheckResponse.SERVING)
        return cls(server, health_service, bound_port)

    async def stop(self) -> None:
        """Take no more calls, tell clients to go elsewhere, and give those in progress 5 s to end."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(DRAIN_LIMIT_S)
