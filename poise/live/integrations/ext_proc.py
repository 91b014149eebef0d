"""An endpoint picker for Envoy: the external processing service through which Poise routes each request.

The protocol is that of the Gateway API Inference Extension ("Endpoint Picker Protocol", 1.0.0) on Envoy's ext_proc
(envoy.service.ext_proc.v3): the choice is a header and dynamic metadata, `x-gateway-destination-endpoint`, with those
to try after it; refusals are immediate responses. Request bodies come BUFFERED or FULL_DUPLEX_STREAMED. Answers
may be shown too (STREAMED or FULL_DUPLEX_STREAMED), at some 0.1 ms for each chunk. Where their bodies are not (NONE),
an answer's end is that of Envoy's stream, which lasts as long if `response_trailer_mode` is SEND; its tokens are not
known then, and a client that leaves counts as served.

Needs `grpcio` and `protobuf` (the extra `envoy`).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable
from typing import Any

from poise.core.errors import UserError
from poise.core.extras import install
from poise.live.gateway.gateway import Gateway
from poise.live.integrations.ext_proc_request import ExtProcRequest, Picked
from poise.live.integrations.stream import CUT, Stream, read_request

try:
    import grpc
except ModuleNotFoundError as error:
    raise UserError(f"the Envoy integration needs {error.name}; {install('envoy')}") from None

log = logging.getLogger("poise.integrations")


class ExtProc:
    """Serves Envoy with a gateway's decisions; both may take requests at once.

    The gateway's own port answers `/health`, `/ready` and `/v1/models`, and this one gRPC's health checks.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._server: Any = None
        gateway.api.proxied_requests[ExtProcRequest] = Picked

    async def start(self, host: str, port: int, tls: tuple[bytes, bytes] | None = None) -> int:
        """Listen; returns the port.  tls: key and certificate chain, PEM.  UserError for an engine without an IP."""
        for engine in self._gateway.world.fleet:
            _check_ip(engine.name, engine.at.place.host)
        server = grpc.aio.server(options=(("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)))
        server.add_generic_rpc_handlers((_handlers(self._process, self._check),))
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if tls is None:
                bound = server.add_insecure_port(where)
            else:
                bound = server.add_secure_port(where, grpc.ssl_server_credentials([tls]))
        except RuntimeError as error:
            raise UserError(f"cannot listen on {where}: {error}; give a free port") from None
        await server.start()
        self._server = server
        return int(bound)

    async def stop(self, grace_s: float) -> None:
        """Take no more requests, and let running ones end; call it before the gateway stops."""
        await self._server.stop(grace_s)

    async def _process(self, _: Any, context: Any) -> None:
        """`ExternalProcessor/Process`: one stream for each request."""
        answers: asyncio.Queue[bytes | None] = asyncio.Queue()
        stream = Stream(self._gateway, answers.put_nowait)
        reading = asyncio.get_running_loop().create_task(_read(context, stream, answers))
        try:
            while (answer := await answers.get()) is not None:
                if answer is CUT:
                    await context.abort(grpc.StatusCode.ABORTED, "the engine is gone")
                await context.write(answer)
        finally:
            reading.cancel()
            stream.over()

    async def _check(self, request: bytes, context: Any) -> bytes:
        """`grpc.health.v1.Health/Check`: the request's field 1 is a service's name, the answer's a status."""
        ready = b"liveness" in request or bool(self._gateway.world.fleet.serving)
        return b"\x08\x01" if ready else b"\x08\x02"


async def _read(context: Any, stream: Stream, answers: asyncio.Queue[bytes | None]) -> None:
    """Read Envoy's stream to its end, which ends the answers too."""
    try:
        while (message := await context.read()) is not grpc.aio.EOF:
            stream.hear(message)
    except Exception:
        log.exception("a message of Envoy's could not be answered")
        answers.put_nowait(CUT)
    else:
        answers.put_nowait(None)


def _handlers(process: Callable[..., Any], check: Callable[..., Any]) -> Any:
    """The two services by their full names."""
    services = {
        "/envoy.service.ext_proc.v3.ExternalProcessor/Process": grpc.stream_stream_rpc_method_handler(
            process, read_request
        ),
        "/grpc.health.v1.Health/Check": grpc.unary_unary_rpc_method_handler(check),
    }

    class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
        """Finds a method's handler."""

        def service(self, details: Any) -> Any:
            """The handler of the called method."""
            return services.get(details.method)

    return Handlers()


def _check_ip(name: str, host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise UserError(
            f"engine {name}: Envoy needs addresses, and {host!r} is a name; give the engine's IP address, "
            "or find engines by DNS"
        ) from None
