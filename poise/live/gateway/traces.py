"""OpenTelemetry traces: a span for each request, with one for its wait and one for each engine that had it.

    gateway (server) ─┬─ queue (internal)     from arrival to the first dispatch
                      └─ engine (client)      from one dispatch to the next, or the end; the engine's `traceparent`

The client's own `traceparent` (W3C Trace Context) is the parent, and its sampling flag decides; without one `share`
decides. Attributes follow the semantic conventions for generative AI and HTTP; never a prompt, key or body.
Spans are sent as OTLP over HTTP by a thread of the SDK, which drops them when the collector is too slow.
Needs the extra `otel`, which is loaded only when traces are enabled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from poise.core.errors import UserError
from poise.core.extras import install
from poise.core.units import SECOND
from poise.live.gateway.fleet import Engine
from poise.live.gateway.proxied_request import ProxiedRequest
from poise.live.gateway.world import World
from poise.live.requests.names import Listed
from poise.live.requests.paths import CHAT, COMPLETION, MESSAGES, RESPONSES

OPERATIONS: Final = {
    CHAT: "chat", RESPONSES: "chat", MESSAGES: "chat", COMPLETION: "text_completion", "/v1/embeddings": "embeddings",
}  # fmt: skip
"""Operations by path; that of any other is named by its last part, as in `rerank`."""
CARRIED: Final = (b"traceparent", b"tracestate")


class _Spans:
    """The open spans of one request."""

    __slots__ = ("context", "engine", "gateway")

    def __init__(self, gateway: Any, context: Any) -> None:
        self.gateway = gateway
        self.context = context
        self.engine: Any = None


class Traces:
    """Makes the spans of a world's requests; `ended` is one of its gateway's watchers.

    models: names by number.  endpoint: URL of the collector, as `http://127.0.0.1:4318/v1/traces`; empty for that of
    OpenTelemetry's own environment variables.  share: sampled share of requests without a sampling flag, from 0 to 1.
    exporter: in place of OTLP over HTTP.  UserError where the SDK is not installed, or the share is out of range.
    """

    def __init__(
        self,
        world: World,
        models: Callable[[], list[str]],
        *,
        endpoint: str = "",
        share: float = 1.0,
        exporter: Any = None,
    ) -> None:
        if not 0 <= share <= 1:
            raise UserError(f"{share} is not a share of requests to trace; give one from 0 to 1")
        self._api = _module("opentelemetry.trace")
        self._provider = _provider(share)
        export = _module("opentelemetry.sdk.trace.export")
        self._provider.add_span_processor(export.BatchSpanProcessor(exporter or _otlp(endpoint)))
        self._tracer = self._provider.get_tracer("poise.gateway")
        self._context = _module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
        self._models = Listed(models)
        self._world = world
        self._wall = time.time_ns() - world.clock() // 1000
        self._open: dict[int, _Spans] = {}
        world.sending = self.sending

    def close(self) -> None:
        """Send what is left; it waits for the collector, so call it when no request waits."""
        self._world.sending = None
        self._provider.shutdown()

    def sending(self, proxied: ProxiedRequest, engine: Engine) -> None:
        """A request is sent to an engine: its queue span ends, and the engine gets the parent span in its headers."""
        now = self._world.clock()
        spans = self._open.get(proxied.view.id)
        if spans is None:
            spans = self._open[proxied.view.id] = self._begin(proxied)
            self._span("queue", spans.context, "INTERNAL", proxied.view.arrived_at, {}).end(self._at(now))
        self._end_engine(spans, proxied, now, "refused")
        attributes = {
            **self._attributes(proxied),
            "server.address": engine.at.place.host,
            "server.port": engine.at.place.port,
            "poise.engine": engine.name,
        }
        name = f"{attributes['gen_ai.operation.name']} {attributes['gen_ai.request.model']}"
        spans.engine = self._span(name, spans.context, "CLIENT", now, attributes)
        carrier: dict[str, str] = {}
        self._context.inject(carrier, self._api.set_span_in_context(spans.engine))
        kept = [each for each in proxied.exchange.headers if each[0] not in CARRIED]
        proxied.exchange.headers = [*kept, *((name.encode(), value.encode()) for name, value in carrier.items())]

    def ended(self, proxied: ProxiedRequest, status: int) -> None:
        """A request has ended for its client."""
        now = self._world.clock()
        spans = self._open.pop(proxied.view.id, None) or self._begin(proxied)
        self._end_engine(spans, proxied, now, str(status) if status >= 400 else "")
        gateway = spans.gateway
        if gateway.is_recording():
            gateway.set_attributes({"http.response.status_code": status, **_used(proxied)})
            if proxied.first_at >= 0:
                waited = (proxied.first_at - proxied.view.arrived_at) / SECOND
                gateway.set_attribute("gen_ai.response.time_to_first_chunk", waited)
            if status >= 500:
                self._fail(gateway, str(status))
        gateway.end(self._at(now))

    def _begin(self, proxied: ProxiedRequest) -> _Spans:
        """The request's own span, begun when it arrived, under the client's if it names one."""
        exchange = proxied.exchange
        carrier = {name.decode(): value.decode("latin-1") for name, value in exchange.headers if name in CARRIED}
        attributes = {
            **self._attributes(proxied),
            "http.request.method": exchange.method,
            "url.path": exchange.path,
            "poise.request": proxied.view.id,
            "poise.tenant": proxied.tenant,
        }
        parent = self._context.extract(carrier)
        span = self._span(f"{exchange.method} {exchange.path}", parent, "SERVER", proxied.view.arrived_at, attributes)
        return _Spans(span, self._api.set_span_in_context(span))

    def _end_engine(self, spans: _Spans, proxied: ProxiedRequest, now: int, wrong: str) -> None:
        """An engine has the request no longer; `wrong` is how it failed, empty for success."""
        span, spans.engine = spans.engine, None
        if span is None:
            return
        if span.is_recording():
            if wrong:
                self._fail(span, wrong)
            else:
                span.set_attributes(_used(proxied))
        span.end(self._at(now))

    def _attributes(self, proxied: ProxiedRequest) -> dict[str, Any]:
        path, view = proxied.exchange.path, proxied.view
        fields: dict[str, Any] = {
            "gen_ai.operation.name": OPERATIONS.get(path, path.rpartition("/")[2]),
            "gen_ai.provider.name": "poise",
            "gen_ai.request.model": self._models.name(view.model),
        }
        if view.max_tokens:
            fields["gen_ai.request.max_tokens"] = view.max_tokens
        return fields

    def _span(self, name: str, parent: Any, kind: str, at: int, attributes: dict[str, Any]) -> Any:
        kinds = self._api.SpanKind
        return self._tracer.start_span(name, parent, kinds[kind], attributes, start_time=self._at(at))

    def _fail(self, span: Any, kind: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._api.Status(self._api.StatusCode.ERROR))

    def _at(self, at: int) -> int:
        """Nanoseconds of the wall clock."""
        return self._wall + at // 1000


def _used(proxied: ProxiedRequest) -> dict[str, Any]:
    """Token attributes, as reported by the engine or counted."""
    usage = proxied.usage
    fields = {"gen_ai.usage.input_tokens": usage.prompt, "gen_ai.usage.cache_read.input_tokens": usage.cached}
    fields = {name: value for name, value in fields.items() if value >= 0}
    return fields | {"gen_ai.usage.output_tokens": usage.tokens} if proxied.first_at >= 0 else fields


def _provider(share: float) -> Any:
    trace, sampling = _module("opentelemetry.sdk.trace"), _module("opentelemetry.sdk.trace.sampling")
    resource = _module("opentelemetry.sdk.resources").Resource.create({"service.name": "poise"})
    sampler = sampling.ParentBased(sampling.TraceIdRatioBased(share))
    return trace.TracerProvider(sampler, resource, shutdown_on_exit=False)


def _otlp(endpoint: str) -> Any:
    exporter = _module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    return exporter.OTLPSpanExporter(endpoint=endpoint or None)


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise UserError(
            f"traces need OpenTelemetry's SDK, which is not installed ({name}); {install('otel')}"
        ) from None
