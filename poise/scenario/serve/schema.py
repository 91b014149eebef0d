"""The gateway file: which sections and fields there are. Every description completes "give …", as in a scenario's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from poise.core.spec import MOST_REPLICAS
from poise.live.gateway.settings import Settings
from poise.scenario.schema import PoliciesSection
from poise.scenario.section import Section, Whole

_SETTINGS = Settings()
_CLIENTS, _ENGINES = _SETTINGS.clients, _SETTINGS.engines

Port = Annotated[Whole, Field(ge=0, le=65535)]


class ListenSection(Section):
    """Where clients reach the gateway."""

    host: str = Field(default="127.0.0.1", description="the address to listen on, as in 0.0.0.0 for all")
    port: Port = Field(default=8000, description="a port, as in 8000; 0 takes a free one")
    tls_cert: str | None = Field(default=None, description="a PEM file with the certificate chain")
    tls_key: str | None = Field(default=None, description="a PEM file with the certificate's key")


class AdminSection(Section):
    """Where the page and the metrics are."""

    host: str = Field(default="127.0.0.1", description="the address of the page; keep it on loopback")
    port: Port | None = Field(default=8001, description="a port for the page and /metrics, or null for none")
    token_env: str | None = Field(default=None, description="an environment variable with the token that guards it")
    hosts: list[str] = Field(default=[], description="the names by which browsers may call it, as in [gw.example.org]")


class EngineSection(Section):
    """One engine."""

    url: str = Field(description="the engine's address, as in http://10.0.0.1:8000")
    name: str = Field(default="", description="a name for the engine; its host and port if not given")
    role: Literal["mixed", "prefill", "decode"] = Field(default="mixed", description="what the engine computes")
    models: list[str] = Field(default=[], description="the names it serves, or nothing to ask the engine")
    api_key_env: str | None = Field(default=None, description="an environment variable with the engine's API key")
    kv_events: str | None = Field(
        default=None, description="where its KV events are published, as in tcp://10.0.0.1:5557"
    )
    kv_replay: str | None = Field(
        default=None, description="where missed KV events can be asked for, as in tcp://10.0.0.1:5558"
    )
    kv_topic: str = Field(default="", description="the topic that its KV events have, as in kv@8001")
    hints: Literal["dynamo"] | None = Field(
        default=None, description="dynamo to tell it in Dynamo's field how long policies.cache keeps KV, or null"
    )
    model: str | None = Field(default=None, description="a model of the catalogue, to know how fast prompts go")
    device: str | None = Field(default=None, description="an accelerator of the catalogue, as in H100")
    tensor: Whole = Field(default=1, ge=1, description="the tensor-parallel degree in devices")
    prefill_tokens_per_s: float = Field(
        default=0.0, ge=0, description="prompt tokens per second, where model and device do not say it"
    )


class DiscoverSection(Section):
    """Engines that come and go."""

    file: str | None = Field(default=None, description="a file with a list of engines, watched for changes")
    dns: str | None = Field(default=None, description="HOST:PORT, each address of which is an engine")
    period_s: float = Field(default=5.0, gt=0, description="the seconds between two looks, as in 5")


class PoolSection(Section):
    """Engines of one role, whose number a scaler decides."""

    name: str = Field(default="", description="a name for the pool; its role if not given")
    role: Literal["mixed", "prefill", "decode"] = Field(default="mixed", description="what its engines compute")
    min_replicas: Whole = Field(default=1, ge=0, le=MOST_REPLICAS, description="the fewest engines that it may have")
    max_replicas: Whole = Field(ge=1, le=MOST_REPLICAS, description="the most engines that it may have, as in 8")
    start_s: float = Field(default=0.0, ge=0, description="the seconds until a new engine serves, 0 for unknown")


class EnvoySection(Section):
    """The port for Envoy; needs the extra `envoy`."""

    host: str = Field(default="127.0.0.1", description="the address to listen on, as in 0.0.0.0 for all")
    port: Port = Field(default=9002, description="the port of the external processing service, as in 9002")
    tls_cert: str | None = Field(default=None, description="a PEM file with the certificate chain")
    tls_key: str | None = Field(default=None, description="a PEM file with the certificate's key")
    fallbacks: Whole = Field(default=1, ge=0, description="the engines that Envoy may try after the one chosen")


class ShareSection(Section):
    """Other gateways before the same engines, with which load, limits, fairness and prefixes are shared."""

    listen: str | None = Field(
        default=None, description="HOST:PORT, where other gateways reach this one, as in 0.0.0.0:9100"
    )
    peers: list[str] = Field(default=[], description="a list of the other gateways, as in [10.0.0.2:9100]")
    dns: str | None = Field(default=None, description="HOST:PORT, each address of which is a gateway, perhaps this one")
    key_env: str | None = Field(
        default=None, description="an environment variable with the key that all gateways share, as in POISE_SHARE_KEY"
    )
    period_s: float = Field(
        default=0.005, gt=0, le=1, description="the seconds for which news is gathered, as in 0.005"
    )


class TenantsSection(Section):
    """The tenants and their keys."""

    file: str | None = Field(default=None, description="a YAML file of tenants and their keys")
    header: str | None = Field(
        default=None, description="a header that names the tenant, where something in front of the gateway checks it"
    )
    unknown: Literal["refuse", "default"] = Field(
        default="refuse", description="what becomes of an unknown key: refuse, or default"
    )


class RecordSection(Section):
    """The recording."""

    file: str = Field(description="a file to record to, as in day.jsonl or day.parquet")
    part_mb: float = Field(default=256.0, gt=0, description="the megabytes after which the next part begins")
    part_s: float = Field(default=0.0, ge=0, description="the seconds after which the next part begins, 0 for never")
    text: bool = Field(default=False, description="whether bodies are kept too, in a file of their own")


class BelieveSection(Section):
    """What the gateway knows of its engines."""

    period_s: float = Field(default=0.5, gt=0, description="the seconds between two looks at an engine's metrics")
    timeout_s: float = Field(default=2.0, gt=0, description="the seconds that a look may take")
    prefix: Literal["own", "reported"] = Field(
        default="own", description="own (what was sent where, by text) or reported (by KV events)"
    )
    prefix_tokens: Whole = Field(
        default=_SETTINGS.prefix_tokens,
        ge=1,
        description="the tokens of prompts remembered of an engine that does not tell its KV size",
    )
    kv_bind: str | None = Field(
        default=None, description="an endpoint that engines connect to with KV events, as in tcp://127.0.0.1:5557"
    )
    tokenizer: str | None = Field(
        default=None, description="a folder with tokenizer.json, which `prefix: reported` needs"
    )
    block_tokens: Whole = Field(default=16, ge=1, description="the tokens of an engine's KV block, as in 16")


class LimitsSection(Section):
    """Limits on clients; 0 for no limit."""

    held_s: float = Field(default=_SETTINGS.held_s, ge=0, description="the longest wait at the gateway in seconds")
    held: Whole = Field(default=_SETTINGS.held, ge=0, description="the requests that may wait")
    request_s: float = Field(default=_SETTINGS.request_s, ge=0, description="the longest life of a request in seconds")
    ttft_s: float = Field(
        default=_SETTINGS.ttft_s, ge=0, description="when the first token is due, for requests that do not say"
    )
    fan_out: Whole = Field(
        default=_SETTINGS.fan_out, ge=0, description="the items that a request with fan_out may have, as in 16"
    )
    body_mb: float = Field(default=_CLIENTS.body_bytes / 2**20, gt=0, description="the MiB of a request's body")
    audio_mb: float = Field(
        default=_CLIENTS.large_bytes / 2**20,
        gt=0,
        description="the MiB of a body with a sound",
    )
    bodies_mb: float = Field(
        default=_CLIENTS.bodies_bytes / 2**20, gt=0, description="the MiB of all requests' bodies kept at once"
    )
    connections: Whole = Field(default=_CLIENTS.connections, ge=1, description="the clients connected at once")
    idle_s: float = Field(default=_CLIENTS.idle_s, gt=0, description="the seconds a connection may be idle")
    connect_s: float = Field(default=_ENGINES.connect_s, gt=0, description="the seconds to reach an engine")
    first_byte_s: float = Field(default=_ENGINES.head_s, ge=0, description="the seconds until an engine's first byte")
    stall_s: float = Field(default=_ENGINES.stall_s, ge=0, description="the seconds between two bytes of an answer")
    drain_s: float = Field(default=30.0, ge=0, description="the seconds that answers get when the gateway stops")


class LogSection(Section):
    """Logging, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="the least that is logged")
    format: Literal["text", "json"] = Field(default="text", description="text, or json for one object a line")
    access: bool = Field(default=False, description="whether each request gets a line")


class TraceSection(Section):
    """OpenTelemetry traces."""

    endpoint: str = Field(description="the collector's URL, as in http://127.0.0.1:4318/v1/traces")
    share: float = Field(default=1.0, ge=0, le=1, description="the share of requests that are traced, as in 0.1")


class Gateway(Section):
    """The whole file."""

    listen: ListenSection = Field(default=ListenSection(), description="a section listen, as in {port: 8000}")
    admin: AdminSection = Field(default=AdminSection(), description="a section admin, as in {port: 8001}")
    engines: list[EngineSection] = Field(
        default=[], description="a list of engines, as in [http://10.0.0.1:8000, http://10.0.0.2:8000]"
    )
    discover: DiscoverSection = Field(default=DiscoverSection(), description="a section discover, as in {file: FILE}")
    pools: list[PoolSection] = Field(
        default=[], description="a list of pools for policies.scaler, as in [{max_replicas: 8}]"
    )
    slots: Whole = Field(
        default=0, ge=0, le=MOST_REPLICAS, description="how many engines there may be at once, 0 for twice as many"
    )
    workers: Whole = Field(default=1, ge=1, le=64, description="how many processes serve the port, as in 2")
    share: ShareSection | None = Field(default=None, description="a section share, as in {listen: 127.0.0.1:9100}")
    envoy: EnvoySection | None = Field(default=None, description="a section envoy, as in {port: 9002}")
    policies: PoliciesSection = Field(
        default=PoliciesSection(router="prefix_cache"), description="a section policies, as in {router: prefix_cache}"
    )
    shadow: Any = Field(default=None, description="a router whose decisions are recorded, not executed, as in dualmap")
    tries: Whole = Field(default=3, ge=1, description="how often engines may read a request before its first byte")
    belief: BelieveSection = Field(default=BelieveSection(), description="a section belief, as in {period_s: 0.5}")
    tenants: TenantsSection = Field(default=TenantsSection(), description="a section tenants, as in {file: keys.yaml}")
    limits: LimitsSection = Field(default=LimitsSection(), description="a section limits, as in {held_s: 60}")
    record: RecordSection | None = Field(default=None, description="a section record, as in {file: day.jsonl}")
    log: LogSection = Field(default=LogSection(), description="a section log, as in {format: json}")
    traces: TraceSection | None = Field(default=None, description="a section traces, as in {endpoint: URL}")
    seed: Whole = Field(default=0, ge=0, description="the seed of ties and draws")

    @field_validator("engines", mode="before")
    @classmethod
    def _plain_urls(cls, value: Any) -> Any:
        """A URL alone stands for an engine."""
        if not isinstance(value, list):
            return value
        return [{"url": each} if isinstance(each, str) else each for each in value]
