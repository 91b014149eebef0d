"""One stream of Envoy's external processing: reads its messages, and answers as its modes require."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from poise.live.clock import now
from poise.live.gateway.gateway import Gateway
from poise.live.http.bodies import FULL
from poise.live.http.refuse import openai, plain
from poise.live.integrations import messages as v3
from poise.live.integrations.ext_proc_request import ExtProcRequest, Headers

log = logging.getLogger("poise.integrations")

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
_REQUEST_TRAILERS_ON: Final = v3.ProcessingResponse(request_trailers=v3.TrailersResponse()).SerializeToString()
_TRAILERS_ON: Final = v3.ProcessingResponse(response_trailers=v3.TrailersResponse()).SerializeToString()

read_request: Final[Callable[[bytes], Any]] = v3.ProcessingRequest.FromString

CUT: Final = b"cut"
"""In place of a message: break the stream."""


class Stream:
    """One request of Envoy's: messages in, messages out (serialised), no I/O.

    say: takes what is answered; None for the end, CUT for a broken one.
    """

    def __init__(self, gateway: Gateway, send: Callable[[bytes | None], None]) -> None:
        self._gateway = gateway
        self._send = send
        self._mode = self._answer_mode = DUPLEX
        self._head: list[tuple[bytes, bytes]] = []
        self._subset: frozenset[str] | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._at_headers = False
        self._trailers = False
        self._passage: ExtProcRequest | None = None

    def hear(self, message: Any) -> None:
        """Handle a part of a request, or of the answer to it."""
        if message.HasField("protocol_config"):
            self._mode = message.protocol_config.request_body_mode
            self._answer_mode = message.protocol_config.response_body_mode
        part = message.WhichOneof("request")
        getattr(self, f"_{part}")(getattr(message, part), message)

    def over(self) -> None:
        """Envoy has ended the stream."""
        self._forget()
        passage = self._passage
        if passage is None:
            return
        if self._answer_mode == NONE and passage.proxied is not None:
            passage.proxied.passed()  # whether its client stayed to the end is not shown
        passage.over()

    # The request -----------------------------------------------------------------------------------------------------

    def _request_headers(self, part: Any, message: Any) -> None:
        self._head = _pairs(part.headers)
        self._subset = _subset(message, self._head)
        if part.end_of_stream:
            self._at_headers = True
            self._ask()
        elif (refusal := self._gateway.api.gate(self._target, dict(reversed(self._head)))) is not None:
            self._size = -1
            self.refuse(refusal.status, refusal.headers, refusal.body)
        elif self._mode == BUFFERED:
            self._send(_HEADERS_ON)
        elif self._mode != DUPLEX:
            text = "set the filter's request_body_mode to FULL_DUPLEX_STREAMED or BUFFERED"
            log.error("Envoy does not show request bodies: %s", text)
            self.refuse(500, (), openai(500, f"the gateway cannot read requests: {text}"))

    def _request_body(self, part: Any, message: Any) -> None:
        if self._passage is not None or self._size < 0:
            return
        bodies, most = self._gateway.server.bodies, self._gateway.settings.clients.body_limit(self._target)
        self._body.append(part.body)
        self._size += len(part.body)
        bodies.held += len(part.body)
        if self._size > most:
            self._too_much(413, f"the body is larger than {most} bytes")
        elif not bodies.fits(0):
            self._too_much(FULL.status, FULL.reason, FULL.headers)
        elif part.end_of_stream:
            self._ask()

    def _too_much(self, status: int, reason: str, headers: Headers = ()) -> None:
        self._forget()
        self._size = -1
        self.refuse(status, headers, plain(self._target.decode("latin-1"), status, reason))

    @property
    def _target(self) -> bytes:
        return dict(self._head).get(b":path", b"/")

    def _forget(self) -> None:
        """Free the body, which is not needed any more."""
        self._gateway.server.bodies.held -= max(self._size, 0)
        self._size = 0
        self._body.clear()
        if self._passage is not None:
            self._passage.forget()

    def _request_trailers(self, part: Any, message: Any) -> None:
        self._trailers = True
        if self._passage is None:
            self._ask()
        else:
            self._send(_REQUEST_TRAILERS_ON)

    def _ask(self) -> None:
        head = dict(self._head)
        method = head.get(b":method", b"").decode("latin-1")
        host = head.get(b":authority")
        headers = [pair for pair in self._head if not pair[0].startswith(b":")]
        if host is not None:
            headers.append((b"host", host))
        body = b"".join(self._body)
        self._passage = ExtProcRequest(self, method, self._target, headers, body, now(), self._subset)
        self._passage.ask(self._gateway.api)

    # Decisions -------------------------------------------------------------------------------------------------------

    def route(self, endpoints: Sequence[str], headers: Headers) -> None:
        """Send Envoy the endpoints, and the body where it waits for that."""
        value = ",".join(endpoints)
        common = v3.CommonResponse(clear_route_cache=True)
        _set(common.header_mutation, [(DESTINATION.encode(), value.encode()), *headers])
        if self._at_headers or self._mode == DUPLEX:
            response = v3.ProcessingResponse(request_headers=v3.HeadersResponse(response=common))
        else:
            response = v3.ProcessingResponse(request_body=v3.BodyResponse(response=common))
        response.dynamic_metadata.get_or_create_struct(NAMESPACE)[DESTINATION] = value
        self._send(response.SerializeToString())
        if self._mode == DUPLEX and not self._at_headers:
            self._hand_back()
        if self._trailers:
            self._send(_REQUEST_TRAILERS_ON)
        self._forget()

    def _hand_back(self) -> None:
        body = b"".join(self._body)
        pieces = [body[start : start + CHUNK] for start in range(0, len(body), CHUNK)] or [b""]
        for number, piece in enumerate(pieces, 1):
            last = number == len(pieces) and not self._trailers
            self._send(_piece("request_body", piece, last))

    def refuse(self, status: int, headers: Headers, body: bytes) -> None:
        """Have Envoy answer the client itself."""
        answer = v3.ImmediateResponse(body=body, details="poise")
        answer.status.code = status
        _set(answer.headers, [(b"content-type", b"application/json"), *headers])
        self._send(v3.ProcessingResponse(immediate_response=answer).SerializeToString())
        self._send(None)

    def cut(self) -> None:
        """Have Envoy break the answer off."""
        self._send(CUT)

    # The answer ------------------------------------------------------------------------------------------------------

    def _response_headers(self, part: Any, message: Any) -> None:
        pairs = _pairs(part.headers)
        status = int(next((value for name, value in pairs if name == b":status"), b"502"))
        proxied = self._passage.proxied if self._passage is not None else None
        if proxied is not None:
            proxied.answered(status, [pair for pair in pairs if not pair[0].startswith(b":")], _served(message))
            if part.end_of_stream:
                proxied.passed()
            elif self._answer_mode == NONE:
                proxied.passes(b"")
        self._send(_ANSWER_ON)

    def _response_body(self, part: Any, message: Any) -> None:
        proxied = self._passage.proxied if self._passage is not None else None
        if proxied is not None:
            proxied.passes(part.body)
            if part.end_of_stream:
                proxied.passed()
        duplex = self._answer_mode == DUPLEX
        self._send(_piece("response_body", part.body, part.end_of_stream) if duplex else _BODY_ON)

    def _response_trailers(self, part: Any, message: Any) -> None:
        if self._passage is not None and self._passage.proxied is not None:
            self._passage.proxied.passed()
        self._send(_TRAILERS_ON)


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
    """The endpoints that Envoy can reach, from metadata or a header; None where neither is given."""
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
