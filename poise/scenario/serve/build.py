"""From a checked gateway file to the objects that serve."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from poise.catalogue import device as find_device
from poise.catalogue import model as find_model
from poise.core.control.control import Control
from poise.core.control.shadow import shadowed
from poise.core.errors import PolicyError, UserError
from poise.core.estimate import Chunk, StepShape
from poise.core.policy import Cache
from poise.core.records.header import header
from poise.core.slot import CONTROL, acting
from poise.core.spec import Belief, Engine, Pool, PoolSpec, ReplicaSpec
from poise.core.units import SECOND, seconds
from poise.core.version import version
from poise.cost import Roofline
from poise.live.admin.server import Admin
from poise.live.discovery.address import Engine as Place
from poise.live.discovery.address import engine as place_of
from poise.live.discovery.engines import EngineFile, EngineName
from poise.live.gateway.fleet import EngineAt
from poise.live.gateway.gateway import Gateway
from poise.live.gateway.hints import try_out
from poise.live.gateway.logs import Access
from poise.live.gateway.settings import Settings
from poise.live.gateway.traces import Traces
from poise.live.http.limits import Limits, PoolLimits
from poise.live.integrations.choice import Fallback, Subset
from poise.live.record import Recorder
from poise.live.requests.paths import AUDIO
from poise.live.requests.tenants import Tenants
from poise.live.requests.text_prefix import Pieces
from poise.live.requests.token_prefix import Exact, Tokenising
from poise.live.telemetry.poll import Every
from poise.policies import Policies
from poise.policies.find import build, make_named
from poise.scenario.idle import check_predictor
from poise.scenario.place import Path as DataPath
from poise.scenario.policy import PolicyPage, offers
from poise.scenario.policy_spec import choice
from poise.scenario.record import named as written
from poise.scenario.serve.load import LoadedGateway
from poise.scenario.serve.schema import EngineSection
from poise.scenario.serve.schema import Gateway as GatewaySection
from poise.scenario.serve.share import with_tenants
from poise.scenario.serve.sharing import Sharing, Worker, sharing_of
from poise.scenario.slots import check_acts

GATE = tuple(slot for slot in acting("gateway") if slot in CONTROL)
"""Slots of a gateway's `Control`; the answers of `cache` are sent to engines."""
SPARE = 8
"""Spare slots, in addition to those of the engines named, where engines may join."""
GRACE = 60 * SECOND
"""Picoseconds that engines outlive the DNS name that listed them."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that `poise serve` needs before it opens a socket.

    file: the file as it is written.  loaded: the same with the tenants of the key file.
    """

    file: GatewaySection
    loaded: LoadedGateway
    control: Control
    settings: Settings
    engines: list[EngineAt]
    watched: EngineFile | None
    named: tuple[Place, EngineName] | None
    tenants: Tenants | None
    exact: Exact | None
    policies: dict[str, Any]
    tls: ssl.SSLContext | None
    pools: list[PoolSpec]
    cache: Cache | None
    sharing: Sharing | None

    def tenants_as(self, other: Plan) -> bool:
        """Whether another plan has the same clients, with the same keys and limits."""
        return self.tenants is other.tenants is None or (self.tenants is not None and self.tenants.same(other.tenants))


def plan(loaded: LoadedGateway, before: Plan | None = None) -> Plan:
    """Build and check everything before anything is opened; UserError for the first error.

    before: the current plan, where a gateway serves already: its tenants keep their numbers.
    """
    gateway = loaded.gateway
    engines = [_engine(loaded, each, ("engines", at)) for at, each in enumerate(gateway.engines)]
    watched = _watched(loaded)
    named = _named(loaded)
    if not engines and watched is None and named is None:
        raise loaded.places.error(
            ("engines",), "there are none; give --engine URL, or engines: or discover: in the file"
        )
    tenants = _tenants(loaded, None if before is None else before.tenants)
    cache = _cache(loaded)
    check_acts(gateway.policies, "gateway" if gateway.envoy is None else "proxy", loaded.places)
    loaded = with_tenants(loaded, tenants)
    policies = _policies(loaded)
    found = len(engines) + (len(watched.engines) if watched else 0)
    slots = gateway.slots or 2 * found + SPARE
    if slots < found:
        raise loaded.places.error(("slots",), f"{slots} are fewer than the {found} engines; give more, or 0")
    router = policies["router"]
    if gateway.shadow is not None:
        router = shadowed(router, _shadow(loaded))
    admission = policies["admission"] or ()
    if gateway.envoy is not None:
        router, admission = Fallback(router, gateway.envoy.fallbacks), (Subset(), *admission)
    if policies["predictor"] is not None:
        own = policies["router"], policies["mover"], policies["order"], *(policies["admission"] or ())
        check_predictor(own, loaded.places)
    pools = _pools(loaded, engines, policies["scaler"])
    sharing = sharing_of(loaded)
    control = Control(
        Policies(**{**policies, "router": router, "admission": admission}),
        [ReplicaSpec(up=False)] * slots,
        pools=pools,
        belief=Belief(
            period_s=gateway.belief.period_s,
            prefix=gateway.belief.prefix,
            share_s=None if sharing is None else sharing.period_s,
        ),
        seed=gateway.seed,
        tries=gateway.tries,
        resume=False,
    )
    control.maker = partial(_made, loaded)
    same = before is not None and before.file.belief == gateway.belief  # a tokenizer takes its time to load
    exact = before.exact if before is not None and same else _exact(loaded)
    return Plan(
        gateway, loaded, control, _settings(loaded), engines, watched, named, tenants, exact,
        {slot: written(slot, getattr(loaded.gateway.policies, slot)) for slot in GATE}, _tls(loaded), pools,
        cache, sharing,
    )  # fmt: skip


def _made(loaded: LoadedGateway, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The policies that an exchange replaces, with the file's shadow on its router."""
    made = make_named(fields)
    if "router" in made and loaded.gateway.shadow is not None:
        made["router"] = shadowed(made["router"], _shadow(loaded))
    return made


def gateway_of(plan: Plan) -> Gateway:
    """The gateway; call it where its loop runs."""
    section = plan.loaded.gateway
    gateway = Gateway(
        plan.control, plan.settings,
        pieces=Pieces(), tenants=plan.tenants, tenant_header=(section.tenants.header or "").lower().encode(),
        exact=Tokenising(plan.exact) if plan.exact else None,
        every=Every(section.belief.period_s, section.belief.timeout_s),
        kv_bind=section.belief.kv_bind or "", cache=plan.cache,
    )  # fmt: skip
    gateway.named = dict(plan.policies)
    if section.log.access:
        gateway.watch(Access(gateway.api.models.listed, gateway.world.clock))
    return gateway


def admin_of(plan: Plan, gateway: Gateway) -> Admin | None:
    """The gateway's page, if the file has a port for it."""
    section = plan.loaded.gateway.admin
    if section.port is None:
        return None
    token = _secret(plan.loaded, section.token_env, ("admin", "token_env"))
    return Admin(gateway, token, tuple(section.hosts))


def traces_of(plan: Plan, gateway: Gateway) -> Traces | None:
    """Traces of requests, if the file asks for them; UserError where their library is missing."""
    section = plan.loaded.gateway.traces
    if section is None:
        return None
    traces = Traces(gateway.world, gateway.api.models.listed, endpoint=section.endpoint, share=section.share)
    gateway.watch(traces.ended)
    return traces


def record(plan: Plan, gateway: Gateway, now: int, worker: Worker | None = None) -> None:
    """Have the gateway recorded from now (picoseconds) on, if the file says so; each worker in files of its own."""
    section = plan.loaded.gateway.record
    if section is None:
        return
    file = plan.loaded.file(section.file, ("record", "file"))
    if worker is not None:
        file = file.with_stem(f"{file.stem}-worker{worker.number}")
    began = {"utc": datetime.now(UTC).isoformat(), "wall_s": time.time()}
    gateway.record(
        Recorder(
            file,
            lambda: _header(plan, gateway, began),
            now,
            part_bytes=int(section.part_mb * MIB),
            part_s=section.part_s,
            text=section.text,
        )
    )


def _header(plan: Plan, gateway: Gateway, began: dict[str, Any]) -> dict[str, Any]:
    """The header of a recording."""
    control, section = plan.control, plan.loaded.gateway
    engines = [
        {"name": "" if engine is None else engine.name, "url": "" if engine is None else _url(engine.at.place)}
        for engine in gateway.world.fleet.slots
    ]
    names = gateway.api.models.listed()
    picker: dict[str, Any] = {} if section.envoy is None else {"fallbacks": section.envoy.fallbacks}
    hashed = "tokens" if plan.exact else "text"
    return header(
        control.state.replicas, control.state.belief, gateway.named,
        seed=section.seed, resume=False, models=names, engines=engines, pools=plan.pools,
        tries=section.tries, poise=version(), began=began, hash=f"xxh3_64 of {hashed}",
        block_tokens=section.belief.block_tokens if plan.exact else 64, **picker,
    )  # fmt: skip


def _url(place: Place) -> str:
    return f"http{'s' * place.tls}://{place.host}:{place.port}{place.path}"


def _policies(loaded: LoadedGateway) -> dict[str, Any]:
    """One policy for each of the gateway's slots."""
    sheet = PolicyPage(loaded.gateway.policies, loaded.places, loaded.folder)
    return {slot: _only(sheet, slot) for slot in GATE}


def _only(sheet: PolicyPage, slot: str) -> Any:
    """The one policy of a slot."""
    offered = offers(sheet, slot)
    if len(offered) > 1:
        cure = "a gateway has one; keep it, and compare the others by `poise whatif`"
        raise sheet.places.error(("policies", slot), f"names {len(offered)}; {cure}")
    return offered[0][1]


def _pools(loaded: LoadedGateway, engines: Sequence[EngineAt], scaler: Any) -> list[PoolSpec]:
    """The pools that a scaler decides on, each with the engines of its role that the file names."""
    sections, places = loaded.gateway.pools, loaded.places
    if scaler is None and loaded.gateway.policies.forecast is not None:
        raise places.error(("policies", "forecast"), "no scaler uses it; name a scaler, or remove it")
    if scaler is not None and not sections:
        raise places.error(("policies", "scaler"), "has no pool to decide on; give pools, as in [{max_replicas: 8}]")
    if getattr(scaler, "converts", ()):
        text = f"{type(scaler).__name__} changes roles of running engines, which a gateway cannot; name one that scales"
        raise places.error(("policies", "scaler"), text)
    if sections and scaler is None:
        raise places.error(("pools",), "no scaler sizes them; name policies.scaler, or leave them out")
    pools = []
    for at, each in enumerate(sections):
        if each.role in [other.role for other in sections[:at]]:
            raise places.error(("pools", at, "role"), f"{each.role} has a pool already; give each role one")
        if each.min_replicas > each.max_replicas:
            text = f"{each.min_replicas} is above max_replicas {each.max_replicas}; lower it"
            raise places.error(("pools", at, "min_replicas"), text)
        here = sum(engine.role == each.role for engine in engines)
        start = min(max(here, each.min_replicas), each.max_replicas)
        pools.append(
            PoolSpec(each.name or each.role, start, each.min_replicas, each.max_replicas, start_s=each.start_s)
        )
    return pools


def _cache(loaded: LoadedGateway) -> Cache | None:
    """The policy for KV hints; None where no engine takes hints."""
    gateway, places = loaded.gateway, loaded.places
    hinted = [at for at, each in enumerate(gateway.engines) if each.hints]
    if not hinted:
        if gateway.policies.cache is not None:
            text = "acts in a gateway on engines that take hints, and there are none; give engines one with hints"
            raise places.error(("policies", "cache"), f"{text}, as in {{url: URL, hints: dynamo}}, or leave it out")
        return None
    if gateway.envoy is not None:
        cure = "a proxy sends requests on itself; leave out hints, or envoy"
        raise places.error(("engines", hinted[0], "hints"), cure)
    if gateway.policies.cache is None:
        raise places.error(
            ("engines", hinted[0], "hints"), "no policy says how long; name policies.cache, as in fixed_ttl"
        )
    cache: Cache = _only(PolicyPage(gateway.policies, places, loaded.folder), "cache")
    try:
        try_out(cache)
    except PolicyError as error:
        raise places.error(("policies", "cache"), str(error)) from None
    return cache


def _shadow(loaded: LoadedGateway) -> Any:
    try:
        name, parameters = choice(loaded.gateway.shadow)
        return build("router", name, parameters)
    except (ValueError, UserError) as error:
        raise loaded.places.error(("shadow",), str(error).removeprefix("policies.router: ")) from None


def _engine(loaded: LoadedGateway, section: EngineSection, path: DataPath) -> EngineAt:
    """One engine of the file."""
    where = f"{loaded.places.of((*path, 'url'))}: {'.'.join(map(str, (*path, 'url')))}"
    return EngineAt(
        place_of(section.url, where, section.name),
        role=section.role,
        models=tuple(section.models),
        api_key=_secret(loaded, section.api_key_env, (*path, "api_key_env")),
        prefill_rate=section.prefill_tokens_per_s or _rate(loaded, section, path),
        kv_events=section.kv_events or "",
        kv_replay=section.kv_replay or "",
        kv_topic=section.kv_topic,
        hints=section.hints is not None,
    )


def _rate(loaded: LoadedGateway, section: EngineSection, path: DataPath) -> float:
    """Prompt tokens per second at a full token budget, by the roofline; 0 for an unknown engine."""
    if section.model is None or section.device is None:
        return 0.0
    try:
        pool = Pool(find_model(section.model), find_device(section.device), tensor=section.tensor)
        tokens = min(Engine().token_budget, pool.model.max_context)
        return tokens / seconds(Roofline().build(pool).step(StepShape(0, (Chunk(tokens, 0),))).base)
    except UserError as error:
        raise loaded.places.error(path, str(error)) from None


def _secret(loaded: LoadedGateway, name: str | None, path: DataPath) -> str:
    """The value of an environment variable, which must be set if it is named."""
    if name is None:
        return ""
    value = os.environ.get(name)
    if not value:
        raise loaded.places.error(path, f"the environment has no {name}; set it before the gateway starts")
    return value


def _watched(loaded: LoadedGateway) -> EngineFile | None:
    file = loaded.gateway.discover.file
    return None if file is None else EngineFile(loaded.file(file, ("discover", "file")))


def _named(loaded: LoadedGateway) -> tuple[Place, EngineName] | None:
    section = loaded.gateway.discover
    if section.dns is None:
        return None
    where = f"{loaded.places.of(('discover', 'dns'))}: discover.dns"
    url = section.dns if "://" in section.dns else f"http://{section.dns}"
    place = place_of(url, where)
    return place, EngineName(place, GRACE, 0)


def _tenants(loaded: LoadedGateway, before: Tenants | None) -> Tenants | None:
    section = loaded.gateway.tenants
    refuse = section.unknown == "refuse"
    if section.file is not None:
        return Tenants.of(loaded.file(section.file, ("tenants", "file")), refuse, section.header is not None, before)
    return Tenants([], refuse, True, before) if section.header is not None else None


def _exact(loaded: LoadedGateway) -> Exact | None:
    section = loaded.gateway.belief
    if section.tokenizer is None:
        if section.prefix == "reported":
            raise loaded.places.error(
                ("belief", "prefix"), "reported needs the model's tokenizer; give belief.tokenizer, a folder"
            )
        return None
    return Exact.of(loaded.file(section.tokenizer, ("belief", "tokenizer")), section.block_tokens)


def _settings(loaded: LoadedGateway) -> Settings:
    limits = loaded.gateway.limits
    for name in ("body_mb", *({"audio_mb"} & limits.model_fields_set)):
        if limits.bodies_mb < getattr(limits, name):
            text = f"{limits.bodies_mb:g} leaves no room for one body of {getattr(limits, name):g} MiB"
            raise loaded.places.error(("limits", "bodies_mb"), f"{text}; give more, or less limits.{name}")
    return Settings(
        held_s=limits.held_s,
        held=limits.held,
        request_s=limits.request_s,
        ttft_s=limits.ttft_s,
        fan_out=limits.fan_out,
        prefix_tokens=loaded.gateway.belief.prefix_tokens,
        pools=tuple(pool.role for pool in loaded.gateway.pools),
        clients=Limits(
            body_bytes=int(limits.body_mb * MIB),
            large_bytes=int(min(limits.audio_mb, limits.bodies_mb) * MIB),
            large=AUDIO,
            bodies_bytes=int(limits.bodies_mb * MIB),
            connections=limits.connections,
            idle_s=limits.idle_s,
        ),
        engines=PoolLimits(connect_s=limits.connect_s, head_s=limits.first_byte_s, stall_s=limits.stall_s),
    )


def _tls(loaded: LoadedGateway) -> ssl.SSLContext | None:
    listen = loaded.gateway.listen
    if listen.tls_cert is None:
        if listen.tls_key is not None:
            raise loaded.places.error(("listen", "tls_cert"), "is missing although tls_key is given; give a PEM file")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    cert = loaded.file(listen.tls_cert, ("listen", "tls_cert"))
    key = None if listen.tls_key is None else loaded.file(listen.tls_key, ("listen", "tls_key"))
    for file, name in ((cert, "tls_cert"), (key, "tls_key")):
        if file is not None and not file.is_file():
            raise loaded.places.error(("listen", name), f"{str(file)!r} is not a file; give a PEM file")
    try:
        context.load_cert_chain(cert, key)
    except (ssl.SSLError, OSError) as error:
        raise loaded.places.error(("listen", "tls_cert"), f"cannot be used ({error}); give a PEM pair") from None
    return context
