"""Traces: the tree of a request's spans, whose child it is, what the engine is told; and OTLP over a real socket."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from poise.core.errors import UserError
from poise.live.gateway.traces import Traces
from poise.policies.admit.ceiling import Ceiling

from .fakes import Bench

CLIENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)  # type: ignore[arg-type]
    bench = Bench(1)
    with pytest.raises(UserError, match=r"-m pip install \"poise\[otel\]\""):
        Traces(bench.world, list)
    assert bench.world.sending is None


def test_a_share_is_from_none_to_all() -> None:
    with pytest.raises(UserError, match="2 is not a share"):
        Traces(Bench(1).world, list, share=2)


class Traced:
    """A bench whose requests are traced, and the spans that were ended."""

    def __init__(self, engines: int = 1, share: float = 1.0, **given: Any) -> None:
        memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
        self.memory = memory.InMemorySpanExporter()
        self.bench = Bench(engines, **given)
        self.traces = Traces(self.bench.world, lambda: ["m"], share=share, exporter=self.memory)
        self.bench.world._watcher = self.traces.ended

    def spans(self) -> dict[str, Any]:
        """By name; those of one name in order."""
        self.traces.close()
        found: dict[str, Any] = {}
        for span in sorted(self.memory.get_finished_spans(), key=lambda each: each.start_time):
            name = span.name
            while name in found:
                name += "'"
            found[name] = span
        return found


def begin(bench: Bench, *headers: tuple[bytes, bytes]) -> Any:
    """A client's request that is begun with headers."""
    arrive = bench.world.arrive

    def with_headers(proxied: Any) -> None:
        proxied.exchange.headers = [(b"x-other", b"1"), *headers]
        arrive(proxied)

    bench.world.arrive = with_headers  # type: ignore[method-assign]
    try:
        return bench.ask()
    finally:
        bench.world.arrive = arrive  # type: ignore[method-assign]


def test_a_request_has_a_span_a_wait_and_an_engine_under_its_clients() -> None:
    traced = Traced(admission=[Ceiling(1)])
    bench = traced.bench
    bench.ask()
    begin(bench, (b"traceparent", CLIENT.encode()), (b"tracestate", b"a=b"))
    bench.now += 3 * 10**12
    bench.calls[0].answer()
    call = bench.calls[0]
    sent = dict(call.headers)
    bench.now += 10**12
    call.answer(b'{"usage":{"prompt_tokens":9,"completion_tokens":4}}')
    spans = traced.spans()
    gateway, queue, engine = spans["POST /v1/completions'"], spans["queue'"], spans["text_completion m'"]
    assert f"{gateway.context.trace_id:032x}" == CLIENT.split("-")[1]
    assert f"{gateway.parent.span_id:016x}" == CLIENT.split("-")[2]
    assert queue.parent.span_id == engine.parent.span_id == gateway.context.span_id
    assert sent[b"traceparent"].decode() == f"00-{engine.context.trace_id:032x}-{engine.context.span_id:016x}-01"
    assert sent[b"tracestate"] == b"a=b" and sent[b"x-other"] == b"1"
    assert queue.end_time - queue.start_time == 3 * 10**9
    assert engine.start_time == queue.end_time and engine.end_time == gateway.end_time
    assert engine.end_time - engine.start_time == 10**9
    assert gateway.attributes["gen_ai.usage.input_tokens"] == 9
    assert gateway.attributes["gen_ai.usage.output_tokens"] == 4
    assert gateway.attributes["http.response.status_code"] == 200
    assert engine.attributes["gen_ai.request.model"] == "m" and engine.attributes["poise.engine"] == "e0"
    assert not traced.traces._open


def test_every_engine_that_had_it_has_a_span() -> None:
    traced = Traced(2)
    traced.bench.ask()
    first = dict(traced.bench.calls[0].headers)[b"traceparent"]
    traced.bench.calls[0].fail("reset")
    second = dict(traced.bench.calls[0].headers)[b"traceparent"]
    traced.bench.calls[0].answer()
    spans = traced.spans()
    failed, well = spans["text_completion m"], spans["text_completion m'"]
    assert first != second and first.split(b"-")[1] == second.split(b"-")[1]
    assert failed.attributes["error.type"] == "refused" and not failed.status.is_ok
    assert "error.type" not in well.attributes
    assert spans["POST /v1/completions"].status.is_ok


@pytest.mark.parametrize(("end", "status", "ok"), [("leave", 499, True), ("down", 503, False)])
def test_who_never_reaches_an_engine_has_a_span_too(end: str, status: int, ok: bool) -> None:
    traced = Traced(0, slots=1)
    _, exchange, _ = traced.bench.ask()
    exchange.leave() if end == "leave" else traced.bench.world.end_all("down")
    (span,) = traced.spans().values()
    assert span.attributes["http.response.status_code"] == status and span.status.is_ok == ok


def test_a_request_that_is_not_sampled_leaves_no_span_but_the_engine_gets_the_header() -> None:
    traced = Traced(share=0.0)
    traced.bench.ask()
    sent = dict(traced.bench.calls[0].headers)
    assert not int(sent[b"traceparent"].rpartition(b"-")[2], 16) & 1
    traced.bench.calls[0].answer()
    begin(traced.bench, (b"traceparent", CLIENT.encode()))
    traced.bench.calls[0].answer()
    assert len(traced.spans()) == 3, "the client's word goes before the share"


def test_what_is_no_trace_context_is_passed_over() -> None:
    traced = Traced()
    begin(traced.bench, (b"traceparent", b"\xff-nonsense"))
    traced.bench.calls[0].answer()
    assert traced.spans()["POST /v1/completions"].parent is None


def test_no_key_prompt_or_body_is_in_a_span() -> None:
    traced = Traced()
    begin(traced.bench, (b"authorization", b"Bearer s3cret-key"), (b"x-session-id", b"s3cret-session"))
    traced.bench.ask(body=b'{"prompt": "s3cret prompt"}')
    for call in list(traced.bench.calls):
        call.answer(b'{"choices": ["s3cret answer"]}')
    result = "".join(span.to_json() for span in traced.spans().values())
    assert "text_completion" in result and "s3cret" not in result


def test_spans_go_out_as_otlp() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    got: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        bench = Bench(1)
        traces = Traces(bench.world, lambda: ["m"], endpoint=f"http://127.0.0.1:{server.server_port}/v1/traces")
        bench.world._watcher = traces.ended
        bench.ask()
        bench.calls[0].answer()
        traces.close()
        server.shutdown()
        thread.join()
    (request,) = [ExportTraceServiceRequest.FromString(body) for body in got]
    (resource,) = request.resource_spans
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == "poise"
    names = [span.name for scope in resource.scope_spans for span in scope.spans]
    assert sorted(names) == ["POST /v1/completions", "queue", "text_completion m"]
