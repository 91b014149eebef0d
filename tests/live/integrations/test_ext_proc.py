"""Envoy's messages without Envoy: what each mode is answered, and the service over a real gRPC connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("grpc", reason="needs the extra `envoy`")
pytest.importorskip("google.protobuf", reason="needs the extra `envoy`")

import grpc

from poise.core.control.control import Control
from poise.core.errors import UserError
from poise.core.event import Cancelled, Finished, FirstToken
from poise.core.spec import ReplicaSpec
from poise.live.discovery.address import Engine as Place
from poise.live.gateway.fleet import EngineAt
from poise.live.gateway.gateway import Gateway
from poise.live.gateway.settings import Settings
from poise.live.http.limits import Limits
from poise.live.integrations import messages as v3
from poise.live.integrations.ext_proc import ExtProc
from poise.live.integrations.stream import BUFFERED, CHUNK, CUT, DUPLEX, NONE, STREAMED, Stream
from poise.live.requests.tenants import Tenants, parse
from poise.policies import Policies
from poise.policies.route.round_robin import RoundRobin
from tests.live.integrations.asking import Record
from tests.patience import PATIENCE_S

BODY = json.dumps({"model": "m", "prompt": "p" * 150_000, "stream": True}).encode()


def a_gateway(
    host: str = "127.0.0.1", settings: Settings | None = None, tenants: Tenants | None = None
) -> tuple[Gateway, Record]:
    """One engine that is up as far as anybody knows; nothing listens there."""
    record = Record()
    gateway = Gateway(Control(Policies(router=RoundRobin()), [ReplicaSpec(up=False)]), settings, tenants=tenants)
    gateway.record(record)
    ExtProc(gateway)  # has the desk know passages
    engine = gateway.world.fleet.add(EngineAt(Place("e", host, 9)))
    assert engine is not None
    gateway.world.fleet.join(engine, ReplicaSpec())
    return gateway, record


class Envoy:
    """Its side of one stream. said: what it was answered, None for the end."""

    def __init__(self, asks: int = DUPLEX, answers: int = STREAMED, gateway: Gateway | None = None) -> None:
        made, self.record = a_gateway()
        self.answers: list[Any] = []
        self.stream = Stream(gateway or made, self._say)
        self._modes = {"request_body_mode": asks, "response_body_mode": answers}

    def _say(self, answer: bytes | None) -> None:
        raw = answer is None or answer is CUT
        self.answers.append(answer if raw else v3.ProcessingResponse.FromString(answer))

    def tell(self, **given: Any) -> list[Any]:
        """A message; what it was answered since the last one."""
        message = v3.ProcessingRequest(**given)
        if self._modes:
            message.protocol_config.request_body_mode = self._modes["request_body_mode"]
            message.protocol_config.response_body_mode = self._modes["response_body_mode"]
            self._modes = {}
        self.answers.clear()
        self.stream.hear(message)
        return self.answers

    def asks(self, body: bytes = BODY, path: str = "/v1/completions") -> list[Any]:
        """The head of a request and, in pieces, its body; what it was answered in all."""
        answers = list(self.tell(request_headers=headers(":method=POST", f":path={path}", ":authority=here")))
        middle = len(body) // 2
        answers += self.tell(request_body=v3.HttpBody(body=body[:middle]))
        return answers + self.tell(request_body=v3.HttpBody(body=body[middle:], end_of_stream=True))


def headers(*lines: str, end: bool = False) -> Any:
    made = v3.HttpHeaders(end_of_stream=end)
    for line in lines:
        name, _, value = line.partition("=")
        made.headers.headers.add(key=name, raw_value=value.encode())
    return made


def chosen(common: Any) -> dict[str, bytes]:
    return {each.header.key: each.header.raw_value for each in common.header_mutation.set_headers}


def test_full_duplex_is_answered_after_the_body_which_is_handed_back() -> None:
    envoy = Envoy(DUPLEX)
    first, *pieces = envoy.asks()
    assert chosen(first.request_headers.response) == {"x-gateway-destination-endpoint": b"127.0.0.1:9"}
    metadata = first.dynamic_metadata["envoy.lb"]
    assert dict(metadata) == {"x-gateway-destination-endpoint": "127.0.0.1:9"}
    streamed = [each.request_body.response.body_mutation.streamed_response for each in pieces]
    assert b"".join(each.body for each in streamed) == BODY and max(len(each.body) for each in streamed) == CHUNK
    assert [each.end_of_stream for each in streamed] == [False, False, True]


def test_buffered_is_answered_with_the_body() -> None:
    go_on, answer = Envoy(BUFFERED).asks()
    assert go_on.HasField("request_headers") and not chosen(go_on.request_headers.response)
    assert chosen(answer.request_body.response) == {"x-gateway-destination-endpoint": b"127.0.0.1:9"}
    assert not answer.request_body.response.HasField("body_mutation")


def test_trailers_end_a_body_and_are_answered() -> None:
    envoy = Envoy(DUPLEX)
    assert envoy.tell(request_headers=headers(":method=POST", ":path=/v1/completions")) == []
    assert envoy.tell(request_body=v3.HttpBody(body=b'{"model":"m","prompt":"p"}')) == []
    first, piece, trailers = envoy.tell(request_trailers=v3.HttpTrailers())
    assert first.HasField("request_headers") and trailers.HasField("request_trailers")
    assert not piece.request_body.response.body_mutation.streamed_response.end_of_stream


def test_what_needs_no_engine_is_answered_at_once() -> None:
    answer, end = Envoy().tell(request_headers=headers(":method=GET", ":path=/v1/models", end=True))
    assert answer.immediate_response.status.code == 200 and end is None
    assert json.loads(answer.immediate_response.body)["object"] == "list"


@pytest.mark.parametrize("mode", [NONE, STREAMED])
def test_a_filter_that_shows_no_bodies_is_refused_with_the_cure(mode: int) -> None:
    answer, _ = Envoy(mode).tell(request_headers=headers(":method=POST", ":path=/v1/completions"))
    assert answer.immediate_response.status.code == 500
    assert b"FULL_DUPLEX_STREAMED or BUFFERED" in answer.immediate_response.body


def test_a_body_has_a_limit() -> None:
    gateway, _ = a_gateway(settings=Settings(clients=Limits(body_bytes=1000)))
    answer, end = Envoy(gateway=gateway).asks()
    assert answer.immediate_response.status.code == 413 and end is None


def test_an_unknown_key_is_refused_by_the_head() -> None:
    gateway, _ = a_gateway(tenants=Tenants(parse("[{name: gold, key: sk-gold}]", "keys")))
    for more, entry in (((), True), (("authorization=Bearer sk-gold",), False)):
        answers = Envoy(gateway=gateway).tell(request_headers=headers(":method=POST", ":path=/v1/completions", *more))
        assert bool(answers) == entry and (not answers or answers[0].immediate_response.status.code == 401)


def test_all_bodies_together_have_a_limit() -> None:
    gateway, _ = a_gateway(settings=Settings(clients=Limits(bodies_bytes=200_000)))
    bodies, waiting, late = gateway.server.bodies, Envoy(gateway=gateway), Envoy(gateway=gateway)
    for envoy in (waiting, late):
        assert envoy.tell(request_headers=headers(":method=POST", ":path=/v1/completions")) == []
    assert waiting.tell(request_body=v3.HttpBody(body=bytes(199_000))) == [] and bodies.held == 199_000
    answer, end = late.tell(request_body=v3.HttpBody(body=bytes(2000)))
    assert answer.immediate_response.status.code == 503 and end is None and bodies.held == 199_000
    late.stream.over()
    waiting.stream.over()
    assert bodies.held == 0
    routed = Envoy(gateway=gateway)
    assert chosen(routed.asks()[0].request_headers.response) and bodies.held == 0


@pytest.mark.parametrize(("answers", "handed_back"), [(STREAMED, False), (DUPLEX, True)])
def test_an_answer_passes(answers: int, handed_back: bool) -> None:
    envoy = Envoy(DUPLEX, answers)
    envoy.asks()
    (on,) = envoy.tell(response_headers=headers(":status=200", "content-type=text/event-stream"))
    assert on.HasField("response_headers") and not envoy.record.of(FirstToken)
    for last in (False, True):
        (piece,) = envoy.tell(response_body=v3.HttpBody(body=b"data: x\n\n", end_of_stream=last))
        common = piece.response_body.response
        assert common.HasField("body_mutation") == handed_back
        if handed_back:
            streamed = common.body_mutation.streamed_response
            assert (streamed.body, streamed.end_of_stream) == (b"data: x\n\n", last)
        assert len(envoy.record.of(FirstToken)) == 1 and len(envoy.record.of(Finished)) == last
    envoy.stream.over()
    assert not envoy.record.of(Cancelled)


def test_an_answer_that_is_not_shown_ends_with_the_stream() -> None:
    envoy = Envoy(DUPLEX, NONE)
    envoy.asks()
    envoy.tell(response_headers=headers(":status=200"))
    assert len(envoy.record.of(FirstToken)) == 1 and not envoy.record.of(Finished)
    envoy.stream.over()
    assert len(envoy.record.of(Finished)) == 1 and not envoy.record.of(Cancelled)


def test_trailers_end_an_answer_too() -> None:
    envoy = Envoy()
    envoy.asks()
    envoy.tell(response_headers=headers(":status=200"))
    (on,) = envoy.tell(response_trailers=v3.HttpTrailers())
    assert on.HasField("response_trailers") and len(envoy.record.of(Finished)) == 1


@pytest.mark.parametrize("how", ["metadata", "attribute"])
def test_who_served_is_read_from_either_place(how: str) -> None:
    envoy = Envoy()
    envoy.asks()
    message = v3.ProcessingRequest(response_headers=headers(":status=200"))
    if how == "metadata":
        fields = message.metadata_context.filter_metadata["envoy.lb"].fields
        fields["x-gateway-destination-endpoint-served"].string_value = "10.9.9.9:1"
    else:
        message.attributes["envoy.filters.http.ext_proc"].fields["upstream.address"].string_value = "10.9.9.9:1"
    envoy.stream.hear(message)
    assert not envoy.record.of(FirstToken) and not envoy.stream._gateway.control.flights, "not from our engine"


@pytest.mark.parametrize("how", ["text", "list", "header"])
def test_a_subset_is_read_from_metadata_or_a_header(how: str) -> None:
    lines = [":method=POST", ":path=/v1/completions"]
    name = "x-gateway-destination-endpoint-subset"
    if how == "header":
        lines.append(f"{name}=1.1.1.1:1, 2.2.2.2:2")
    message = v3.ProcessingRequest(request_headers=headers(*lines))
    if how != "header":
        field = message.metadata_context.filter_metadata["envoy.lb.subset_hint"].fields[name]
        if how == "text":
            field.string_value = "1.1.1.1:1,2.2.2.2:2"
        else:
            for each in ("1.1.1.1:1", "2.2.2.2:2"):
                field.list_value.values.add(string_value=each)
    envoy = Envoy()
    envoy.stream.hear(message)
    answer, _ = envoy.tell(request_body=v3.HttpBody(body=BODY, end_of_stream=True))
    assert answer.immediate_response.status.code == 503, "the only engine is out of reach"


# Over gRPC ------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Any, Gateway, Record]]:
    """A channel to a front."""
    gateway, record = a_gateway()
    front = ExtProc(gateway)
    port = await front.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel, gateway, record
    await front.stop(0)
    await gateway.stop(0)


def _process(channel: Any) -> Any:
    return channel.stream_stream(
        "/envoy.service.ext_proc.v3.ExternalProcessor/Process",
        v3.ProcessingRequest.SerializeToString,
        v3.ProcessingResponse.FromString,
    )()


def test_a_stream_that_breaks_off_is_a_client_that_left() -> None:
    async def main() -> None:
        async with serving() as (channel, gateway, record):
            call = _process(channel)
            await call.write(v3.ProcessingRequest(request_headers=headers(":method=POST", ":path=/v1/completions")))
            await call.write(v3.ProcessingRequest(request_body=v3.HttpBody(body=BODY, end_of_stream=True)))
            answer = await asyncio.wait_for(call.read(), PATIENCE_S)
            assert answer.HasField("request_headers")
            call.cancel()
            await record.next(Cancelled)
            assert not gateway.control.flights

    asyncio.run(main())


def test_health_is_grpcs_own() -> None:
    async def main() -> None:
        async with serving() as (channel, gateway, _):
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            assert await check(b"") == b"\x08\x01"
            gateway.world.fleet.eject(gateway.world.fleet.engine(0))
            assert await check(b"\x0a\x09readiness") == b"\x08\x02"
            assert await check(b"\x0a\x08liveness") == b"\x08\x01"
            with pytest.raises(grpc.aio.AioRpcError):
                await channel.unary_unary("/nobody/Knows")(b"")

    asyncio.run(main())


def test_what_envoy_cannot_express_is_a_users_error() -> None:
    async def main() -> None:
        named, _ = a_gateway("engine.example")
        with pytest.raises(UserError, match=r"engine e: .*'engine\.example' is a name; give the engine's IP"):
            await ExtProc(named).start("127.0.0.1", 0)
        gateway, _ = a_gateway()
        first, second = ExtProc(gateway), ExtProc(gateway)
        port = await first.start("127.0.0.1", 0)
        with pytest.raises(UserError, match=f"127.0.0.1:{port}.*give a free port"):
            await second.start("127.0.0.1", port)
        await first.stop(0)

    asyncio.run(main())
