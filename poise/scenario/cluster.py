"""The cluster of a scenario: devices and models by name or by figures, pools with engines, and whether they fit."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

from poise.catalogue import device as find_device
from poise.catalogue import model as find_model
from poise.catalogue.engines import engine_defaults, handing_over, on_ranks
from poise.core.errors import UserError
from poise.core.experts import ExpertLoad
from poise.core.model import Model
from poise.core.precision import BITS, PARTS, Format, Precision, Store
from poise.core.spec import Cluster, Device, EncoderPool, Engine, Fault, FaultRate, Lane, Pool, Startup
from poise.cost import Fitted, Measured, Roofline, kv_blocks
from poise.cost.drafted import Drafting
from poise.cost.fitted import load_fitted
from poise.cost.memory import footprint
from poise.cost.tables import load_tables
from poise.cost.term import Termed, held
from poise.scenario import terms
from poise.scenario.checks import engine_of
from poise.scenario.engine_cost import EngineCost, Speculative
from poise.scenario.experts import with_experts
from poise.scenario.explain import unknown
from poise.scenario.load import Loaded
from poise.scenario.place import Path
from poise.scenario.policy_spec import choices
from poise.scenario.schema import (
    BareCost,
    DeviceSection,
    EngineCostSection,
    EngineSection,
    FittedSection,
    MeasuredSection,
    PartsSection,
    PoolSection,
    StartupSection,
    TermsSection,
)
from poise.scenario.section import Section

SCALES = {
    "bf16_tflops": ("bf16_flops", 1e12),
    "fp8_tflops": ("fp8_flops", 1e12),
    "int8_tops": ("int8_ops", 1e12),
    "fp4_tflops": ("fp4_flops", 1e12),
    "memory_gb": ("memory_bytes", 1e9),
    "memory_gb_s": ("memory_bw", 1e9),
    "scaleup_gb_s": ("scaleup_bw", 1e9),
    "scaleup_domain": ("scaleup_domain", 1),
    "host_gb_s": ("host_bw", 1e9),
    "scaleout_gb_s": ("scaleout_bw", 1e9),
    "tdp_w": ("tdp_w", 1),
}
"""For each figure of a device section: the field of `Device` and what one unit of it is."""

_NEEDED = ("bf16_tflops", "memory_gb", "memory_gb_s")


Recipe = Roofline | Measured | Fitted | EngineCost | Termed
"""The possible results of the section `cost`."""


def build_cost(loaded: Loaded) -> Recipe:
    """The cost of the section `cost`, with the terms around it where there are any."""
    given = loaded.scenario.cost
    if not isinstance(given, TermsSection):
        return bare_cost(loaded, given, ("cost",))
    listed = isinstance(given.terms, list)
    found = []
    for at, each in enumerate(choices(given.terms)):
        try:
            found.append(terms.build(each or ("", {})))
        except UserError as error:
            path: Path = ("cost", "terms", at) if listed else ("cost", "terms")
            raise loaded.places.error(path, str(error)) from None
    bare = bare_cost(loaded, given.of, ("cost", "of"))
    try:
        return Termed(bare, tuple(found))
    except UserError as error:
        raise loaded.places.error(("cost", "terms"), str(error)) from None


def bare_cost(loaded: Loaded, given: BareCost, path: Path) -> Roofline | Measured | Fitted | EngineCost:
    """The cost that was fitted to a recording, measured operators alone or under an engine, or the roofline."""
    places = loaded.places
    if isinstance(given, FittedSection):
        at = (*path, "fitted")
        try:
            return load_fitted(loaded.file(given.fitted, at))
        except UserError as error:
            raise places.error(at, str(error)) from None
    if isinstance(given, MeasuredSection):
        return _measured(loaded, given, path)
    if isinstance(given, EngineCostSection):
        if not engine_defaults(given.engine).known:
            text = f"{given.engine!r} is not a known engine; give vllm, sglang or tensorrt-llm"
            raise places.error((*path, "engine"), text)
        tables = _tables(loaded, given.tables, path)
        return EngineCost(given.engine, given.version, _speculative(loaded, given, path), tables)
    return Roofline(**_efficiencies(loaded, given, path))


def _speculative(loaded: Loaded, given: EngineCostSection, path: Path) -> Speculative | None:
    """What drafts, by the section or by the number of drafts alone."""
    section = given.speculative
    if section is None:
        return Speculative(given.drafts, acceptance=given.acceptance) if given.drafts else None
    at = (*path, "speculative")
    if given.drafts:
        raise loaded.places.error(at, "stands beside drafts, which says the same; remove one of them")
    if section.method == "draft_model" and section.model is None:
        raise loaded.places.error(at, "lacks model, which proposes where the method is draft_model; give its name")
    try:
        name = section.model or ""
        draft = find_model(name) if section.method == "draft_model" else None
        drafts, verified = section.num_speculative_tokens, section.verified_tokens
        Drafting(drafts, 1.0, verified)
        chance = given.acceptance if section.acceptance is None else section.acceptance
        return Speculative(drafts, section.method, chance, draft, verified, name)
    except UserError as error:
        raise loaded.places.error(at, str(error)) from None


def _measured(loaded: Loaded, given: MeasuredSection, path: Path) -> Measured:
    """Measured operators by the tables that ship or that the scenario names."""
    use = _efficiencies(loaded, given.measured, (*path, "measured"))
    return Measured(**use, tables=_tables(loaded, given.tables, path))


def _tables(loaded: Loaded, given: str | None, path: Path) -> str:
    """The file of operator tables that a cost names, found to be one; "" for the tables that ship."""
    if given is None:
        return ""
    at = (*path, "tables")
    file = loaded.file(given, at)
    try:
        load_tables(file)
    except UserError as error:
        raise loaded.places.error(at, str(error)) from None
    return str(file)


def _efficiencies(loaded: Loaded, given: dict[str, float], path: Path) -> dict[str, Any]:
    known = [each.name for each in fields(Roofline)]
    for name in given:
        if name not in known:
            raise loaded.places.error((*path, name), unknown(name, known))
    for each in fields(Roofline):
        value = given.get(each.name, 1.0)
        if not each.name.endswith("_s") and not 0 < value <= each.metadata["most"]:
            rule = "above 0" if value <= 0 else "at most 1, a part of a datasheet figure"
            raise loaded.places.error((*path, each.name), f"{value:g} must be {rule}; give the {each.metadata['what']}")
    return dict(given)


def build_cluster(loaded: Loaded, cost: Recipe) -> Cluster:
    """The cluster; raises ScenarioError, which points into the file, for unknown names and for what does not fit."""
    section = loaded.scenario.cluster
    pools = []
    for at, each in enumerate(section.pools):
        path = ("cluster", "pools", at)
        pools.append(_pool(loaded, each, path))
        try:
            pools[-1] = held(cost, pools[-1])
            cost.build(pools[-1])
            kv_blocks(pools[-1])
        except UserError as error:
            raise _located(loaded, path, str(error)) from None
        if each.startup is not None:
            pools[-1] = replace(pools[-1], startup=_startup(loaded, each.startup, pools[-1], path))
    cluster = Cluster(
        tuple(pools),
        encoders=_encoders(loaded),
        link_bw=(section.link_gb_s or 0.0) * 1e9,
        **({} if section.link_latency_s is None else {"link_latency_s": section.link_latency_s}),
        faults=tuple(Fault(**each.model_dump()) for each in section.faults),
        fault_rates=tuple(
            FaultRate(**{**each.model_dump(), "replicas": tuple(each.replicas)}) for each in section.fault_rates
        ),
    )
    if isinstance(cost, EngineCost) and section.link_latency_s is None:
        return handing_over(cluster, engine_defaults(cost.engine, cost.version))
    return cluster


def _encoders(loaded: Loaded) -> EncoderPool | None:
    """The encoders apart from the pools."""
    section = loaded.scenario.cluster.encoders
    if section is None:
        return None
    try:
        found = find_device(section.device)
    except UserError as error:
        raise loaded.places.error(("cluster", "encoders", "device"), str(error)) from None
    return EncoderPool(found, section.replicas, section.price, (section.link_gb_s or 0.0) * 1e9)


def _located(loaded: Loaded, path: Path, text: str) -> UserError:
    """An error about `pool.FIELD`, with its place in the file."""
    found = re.match(r"(?:pool\.)?(model|device|tensor|pipeline|data|expert|power_cap_w)\b:?\.? ?(?:is )?(.*)", text)
    return loaded.places.error((*path, found[1]), found[2]) if found else loaded.places.error(path, text)


def _pool(loaded: Loaded, pool: PoolSection, path: Path) -> Pool:
    model = _model(loaded, pool, path)
    weights, parts = _formats(pool.weights)
    made = Pool(**_alike(pool, Pool) | {
        "model": model if pool.max_context is None else replace(model, max_context=pool.max_context),
        "device": _device(loaded, pool, path),
        "weights": weights,
        "parts": parts,
        "kv": pool.kv or "bf16",
        "price_per_hour": pool.price,
        "engine": _engine(engine_of(loaded.scenario, pool)),
        "startup": None,  # once its weights are known
        "power_cap_w": pool.power_cap_w or 0.0,
        "tenants": tuple(pool.tenants),
        "link_bw": (pool.link_gb_s or 0.0) * 1e9,
    })  # fmt: skip
    stated = made.precision.kv if pool.kv is None else None
    return on_ranks(with_experts(loaded, pool, replace(made, kv=stated) if stated else made, path))


def _formats(given: Format | PartsSection) -> tuple[Format, Precision | None]:
    """A pool's format in one word, and by part where it is given so: then the word is the narrowest."""
    if isinstance(given, str):
        return given, None
    forms = {part: getattr(given, part) or given.attention for part in PARTS}
    stores = {part: Store(form, BITS[form]) for part, form in forms.items()}
    return min(stores.values(), key=lambda store: store.bits).format, Precision.by_part(stores)


def _alike(section: Section, spec: type) -> dict[str, Any]:
    """The fields that a section shares by name with the description that it becomes."""
    return {each.name: getattr(section, each.name) for each in fields(spec) if each.name in type(section).model_fields}


def _startup(loaded: Loaded, section: StartupSection, pool: Pool, path: Path) -> Startup:
    """The stages of a start; weights take their bytes on all devices over the rate at which these get them."""
    seconds = section.weights_s or 0.0
    if section.weights_from is not None:
        own = {"host": pool.device.host_bw, "peer": pool.device.scaleout_bw}.get(section.weights_from, 0.0)
        rate = section.weights_gb_s * 1e9 if section.weights_gb_s is not None else own * pool.devices
        if not rate:
            text = f"{section.weights_from}: {pool.device.name} states no such link; give weights_gb_s"
            raise loaded.places.error((*path, "startup", "weights_from"), text)
        seconds = footprint(pool).weights * pool.devices / rate
    return Startup(**_alike(section, Startup) | {"weights_s": seconds})


def _model(loaded: Loaded, pool: PoolSection, path: Path) -> Model:
    """A built-in model, or the one of a `config.json` next to the scenario."""
    text, at = (pool.model, (*path, "model")) if pool.model is not None else (loaded.scenario.model or "", ("model",))
    file = loaded.file(text, at)
    try:
        if text.startswith((".", "/", "~")) or text.endswith(".json"):
            return find_model(file)
        try:
            return find_model(text)
        except UserError:
            if not file.exists():
                raise
            return find_model(file)
    except UserError as error:
        raise loaded.places.error(at, str(error)) from None


def _device(loaded: Loaded, pool: PoolSection, path: Path) -> Device:
    """A built-in device, or one described by its figures."""
    section, at = pool.device, (*path, "device")
    try:
        if isinstance(section, str):
            return find_device(section, pool.price_basis or "")
        like = find_device(section.like, pool.price_basis or "") if section.like is not None else None
    except UserError as error:
        raise loaded.places.error(at, str(error)) from None
    return _described(loaded, section, like, at)


def _described(loaded: Loaded, section: DeviceSection, like: Device | None, at: Path) -> Device:
    """A device by its figures, the others being those of `like`."""
    lacking = [name for name in _NEEDED if getattr(section, name) is None]
    if like is None and lacking:
        raise loaded.places.error(
            at, f"{section.name} lacks {', '.join(lacking)}; give them, or `like:` a built-in device"
        )
    base = like or Device(section.name, "", 0.0, 0, 0.0)
    given = {
        field: round(value * unit) if field in ("memory_bytes", "scaleup_domain") else value * unit
        for name, (field, unit) in SCALES.items()
        if (value := getattr(section, name)) is not None
    }
    source = f"the scenario, else {base.source}" if like else "the scenario"
    return replace(base, name=section.name, source=source, pcie=section.pcie or base.pcie, **given)


def _engine(section: EngineSection) -> Engine:
    return Engine(**_alike(section, Engine) | {
        "expert_load": ExpertLoad(), "expert_placement": (),  # once its model is known
        "version": Engine().version if section.name == Engine().name else "not stated",
        "host_kv_bytes": round(section.host_kv_gb * 1e9),
        "swap_launch_s": section.swap_launch_us / 1e6,
        "lora_disk_bw": section.lora_disk_gb_s * 1e9,
        "lanes": tuple(Lane(**_alike(each, Lane)) for each in section.lanes),
    })  # fmt: skip
