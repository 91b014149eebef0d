"""An endpoint picker for Envoy: the external processing service that asks Poise where each request goes.

The protocol is that of the Gateway API Inference Extension ("Endpoint Picker Protocol", 1.0.0) on Envoy's ext_proc
(envoy.service.ext_proc.v3): the choice is a header and dynamic metadata, `x-gateway-destination-endpoint`, with those
to try after it; refusals are immediate responses. Request bodies come BUFFERED or FULL_DUPLEX_STREAMED. Answers
may be shown too (STREAMED or FULL_DUPLEX_STREAMED), at some 0.1 ms for each chunk. Where their bodies are not (NONE),
an answer's end is that of Envoy's stream, which lasts as long if `response_trailer_mode` is SEND; its tokens are not
known then, and a client that leaves counts as served.

Needs `grpcio` and `xds-protos` (the extra `envoy`).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from poise.core.errors import UserError
from poise.live.clock import now
from poise.live.fronts.passage import Headers, Passage, Picked
from poise.live.gateway.errors import error_body
from poise.live.gateway.gateway import Gateway

try:
    import grpc
    from envoy.service.ext_proc.v3 import external_processor_pb2 as v3
except ModuleNotFoundError as error:
    raise UserError(f"the Envoy front needs {error.name}; pip install 'poise[envoy]'") from None

log = logging.getLogger("poise.fronts")

DESTINATION: Final = "x-gateway-destination-endpoint"
SUBSET: Final = DESTINATION + "-subset"
SERVED: Final = DESTINATION + "-served"
NAMESPACE: Final = "envoy.lb"
HINT: Final = "envoy.lb.subset_hint"
ATTRIBUTES: Final = "envoy.filters.http.ext_proc"
"""The namespaces of Envoy's metadata, and of the attributes of its filter."""
CHUNK: Final = 60_000
"""Bytes of a body that is handed back in one message; some proxies take 64 KiB at most."""

NONE, STREAMED, BUFFERED, PARTIAL, DUPLEX = range(5)
"""How a body is shown (`ProcessingMode.BodySendMode`)."""

_ON: Final = v3.HeadersResponse()
_HEADERS_ON: Final = v3.ProcessingResponse(request_headers=_ON).SerializeToString()
_ANSWER_ON: Final = v3.ProcessingResponse(response_headers=_ON).SerializeToString()
_BODY_ON: Final = v3.ProcessingResponse(response_body=v3.BodyResponse()).SerializeToString()
_ASK_TRAILERS_ON: Final = v3.ProcessingResponse(request_trailers=v3.TrailersResponse()).SerializeToString()
_TRAILERS_ON: Final = v3.ProcessingResponse(response_trailers=v3.TrailersResponse()).SerializeToString()

CUT: Final = b"cut"
"""Said in place of a message: break the stream."""


class Stream:
    """One request of Envoy's: messages in, messages out (serialised), no I/O.

    say: takes what is answered; None for the end, CUT for a broken one.
    """

    def __init__(self, gateway: Gateway, say: Callable[[bytes | None], None]) -> None:
        self._gateway = gateway
        self._say = say
        self._mode = self._answer_mode = DUPLEX
        self._head: list[tuple[bytes, bytes]] = []
        self._subset: frozenset[str] | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._at_headers = False
        self._trailers = False
        self._passage: Passage | None = None

    def hear(self, message: Any) -> None:
        """Envoy tells of a part of a request, or of the answer to it."""
        if message.HasField("protocol_config"):
            self._mode = message.protocol_config.request_body_mode
            self._answer_mode = message.protocol_config.response_body_mode
        part = message.WhichOneof("request")
        getattr(self, f"_{part}")(getattr(message, part), message)

    def over(self) -> None:
        """Envoy has ended the stream."""
        passage = self._passage
        if passage is None:
            return
        if self._answer_mode == NONE and passage.trip is not None:
            passage.trip.passed()  # whether its client stayed to the end is not shown
        passage.over()

    # The request -----------------------------------------------------------------------------------------------------

    def _request_headers(self, part: Any, message: Any) -> None:
        self._head = _pairs(part.headers)
        self._subset = _subset(message, self._head)
        if part.end_of_stream:
            self._at_headers = True
            self._ask()
        elif self._mode == BUFFERED:
            self._say(_HEADERS_ON)
        elif self._mode != DUPLEX:
            said = "set the filter's request_body_mode to FULL_DUPLEX_STREAMED or BUFFERED"
            log.error("Envoy does not show request bodies: %s", said)
            self.refuse(500, (), error_body(500, "server_error", f"the gateway cannot read requests: {said}"))

    def _request_body(self, part: Any, message: Any) -> None:
        if self._passage is not None or self._size < 0:
            return
        self._body.append(part.body)
        self._size += len(part.body)
        if self._size > self._gateway.settings.clients.body_bytes:
            self._size = -1
            most = self._gateway.settings.clients.body_bytes
            self.refuse(413, (), error_body(413, "invalid_request_error", f"the body is larger than {most} bytes"))
        elif part.end_of_stream:
            self._ask()

    def _request_trailers(self, part: Any, message: Any) -> None:
        self._trailers = True
        if self._passage is None:
            self._ask()
        else:
            self._say(_ASK_TRAILERS_ON)

    def _ask(self) -> None:
        head = dict(self._head)
        method = head.get(b":method", b"").decode("latin-1")
        host = head.get(b":authority")
        headers = [pair for pair in self._head if not pair[0].startswith(b":")]
        if host is not None:
            headers.append((b"host", host))
        body = b"".join(self._body)
        target = head.get(b":path", b"/")
        self._passage = Passage(self, method, target, headers, body, now(), self._subset)
        self._passage.ask(self._gateway.desk)

    # What is decided -------------------------------------------------------------------------------------------------

    def route(self, endpoints: Sequence[str], headers: Headers) -> None:
        """Tell Envoy where to, and hand the body back where it waits for that."""
        value = ",".join(endpoints)
        common = v3.CommonResponse(clear_route_cache=True)
        _set(common.header_mutation, [(DESTINATION.encode(), value.encode()), *headers])
        if self._at_headers or self._mode == DUPLEX:
            response = v3.ProcessingResponse(request_headers=v3.HeadersResponse(response=common))
        else:
            response = v3.ProcessingResponse(request_body=v3.BodyResponse(response=common))
        response.dynamic_metadata.get_or_create_struct(NAMESPACE)[DESTINATION] = value
        self._say(response.SerializeToString())
        if self._mode == DUPLEX and not self._at_headers:
            self._hand_back()
        if self._trailers:
            self._say(_ASK_TRAILERS_ON)

    def _hand_back(self) -> None:
        body = b"".join(self._body)
        pieces = [body[start : start + CHUNK] for start in range(0, len(body), CHUNK)] or [b""]
        for number, piece in enumerate(pieces, 1):
            last = number == len(pieces) and not self._trailers
            self._say(_piece("request_body", piece, last))

    def refuse(self, status: int, headers: Headers, body: bytes) -> None:
        """Have Envoy answer the client itself."""
        answer = v3.ImmediateResponse(body=body, details="poise")
        answer.status.code = status
        _set(answer.headers, [(b"content-type", b"application/json"), *headers])
        self._say(v3.ProcessingResponse(immediate_response=answer).SerializeToString())
        self._say(None)

    def cut(self) -> None:
        """Have Envoy break the answer off."""
        self._say(CUT)

    # The answer ------------------------------------------------------------------------------------------------------

    def _response_headers(self, part: Any, message: Any) -> None:
        pairs = _pairs(part.headers)
        status = int(next((value for name, value in pairs if name == b":status"), b"502"))
        trip = self._passage.trip if self._passage is not None else None
        if trip is not None:
            trip.answered(status, [pair for pair in pairs if not pair[0].startswith(b":")], _served(message))
            if part.end_of_stream:
                trip.passed()
            elif self._answer_mode == NONE:
                trip.passes(b"")
        self._say(_ANSWER_ON)

    def _response_body(self, part: Any, message: Any) -> None:
        trip = self._passage.trip if self._passage is not None else None
        if trip is not None:
            trip.passes(part.body)
            if part.end_of_stream:
                trip.passed()
        duplex = self._answer_mode == DUPLEX
        self._say(_piece("response_body", part.body, part.end_of_stream) if duplex else _BODY_ON)

    def _response_trailers(self, part: Any, message: Any) -> None:
        if self._passage is not None and self._passage.trip is not None:
            self._passage.trip.passed()
        self._say(_TRAILERS_ON)


class ExtProc:
    """Serves Envoy with what a gateway decides; both may take requests at once.

    The gateway's own port answers `/health`, `/ready` and `/v1/models`, and this one gRPC's health checks.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._server: Any = None
        gateway.desk.trips[Passage] = Picked

    async def start(self, host: str, port: int, tls: tuple[bytes, bytes] | None = None) -> int:
        """Listen; the port.  tls: key and certificate chain, PEM.  UserError for an engine that is named by no IP."""
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
        """Take no more requests, and let those under way end; before the gateway stops."""
        await self._server.stop(grace_s)

    async def _process(self, _: Any, context: Any) -> None:
        """`ExternalProcessor/Process`: one stream for each request."""
        said: asyncio.Queue[bytes | None] = asyncio.Queue()
        stream = Stream(self._gateway, said.put_nowait)
        reading = asyncio.get_running_loop().create_task(_read(context, stream, said))
        try:
            while (answer := await said.get()) is not None:
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


async def _read(context: Any, stream: Stream, said: asyncio.Queue[bytes | None]) -> None:
    """Hear Envoy to the end, which ends the answers too."""
    try:
        while (message := await context.read()) is not grpc.aio.EOF:
            stream.hear(message)
    except Exception:
        log.exception("a message of Envoy's could not be answered")
        said.put_nowait(CUT)
    else:
        said.put_nowait(None)


def _handlers(process: Callable[..., Any], check: Callable[..., Any]) -> Any:
    """The two services by their full names."""
    read = v3.ProcessingRequest.FromString
    services = {
        "/envoy.service.ext_proc.v3.ExternalProcessor/Process": grpc.stream_stream_rpc_method_handler(process, read),
        "/grpc.health.v1.Health/Check": grpc.unary_unary_rpc_method_handler(check),
    }

    class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
        """Finds a method's handler."""

        def service(self, details: Any) -> Any:
            """The handler of the method that is called."""
            return services.get(details.method)

    return Handlers()


def _pairs(headers: Any) -> list[tuple[bytes, bytes]]:
    return [(each.key.encode(), each.raw_value or each.value.encode()) for each in headers.headers]


def _set(mutation: Any, headers: Headers) -> None:
    for name, value in headers:
        header = mutation.set_headers.add(append_action=2).header  # OVERWRITE_IF_EXISTS_OR_ADD
        header.key, header.raw_value = name.decode("latin-1"), value


def _piece(part: str, body: bytes, last: bool) -> bytes:
    """A part of a body, handed back."""
    streamed = v3.StreamedBodyResponse(body=body, end_of_stream=last)
    common = v3.CommonResponse(body_mutation=v3.BodyMutation(streamed_response=streamed))
    message: bytes = v3.ProcessingResponse(**{part: v3.BodyResponse(response=common)}).SerializeToString()
    return message


def _metadata(message: Any, namespace: str) -> Mapping[str, Any]:
    return message.metadata_context.filter_metadata[namespace].fields if _has(message, namespace) else {}


def _has(message: Any, namespace: str) -> bool:
    return namespace in message.metadata_context.filter_metadata


def _subset(message: Any, head: Headers) -> frozenset[str] | None:
    """The endpoints within Envoy's reach, from metadata or a header; None where it says nothing of them."""
    fields = _metadata(message, HINT)
    if SUBSET in fields:
        given = fields[SUBSET]
        listed = [each.string_value for each in given.list_value.values]
        return _listed(given.string_value, listed)
    for name, value in head:
        if name == SUBSET.encode():
            return _listed(value.decode("latin-1"), ())
    return None


def _listed(text: str, more: Sequence[str]) -> frozenset[str]:
    return frozenset(each.strip() for each in (*text.split(","), *more) if each.strip())


def _served(message: Any) -> str:
    """The endpoint that answers: as the protocol's metadata says, or Envoy's attribute `upstream.address`."""
    fields = _metadata(message, NAMESPACE)
    if SERVED in fields:
        return str(fields[SERVED].string_value)
    attributes = message.attributes
    if ATTRIBUTES in attributes and "upstream.address" in attributes[ATTRIBUTES].fields:
        return str(attributes[ATTRIBUTES].fields["upstream.address"].string_value)
    return ""


def _check_ip(name: str, host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise UserError(
            f"engine {name}: Envoy is told addresses, and {host!r} is a name; give the engine's IP address, "
            "or find engines by DNS"
        ) from None
