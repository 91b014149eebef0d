"""The scenario file that simulates a plan: the planner's own setting, to inspect, change and compare."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from math import ceil, inf, nextafter
from pathlib import Path
from typing import Any

from poise.catalogue import device as find_device
from poise.catalogue import model as find_model
from poise.catalogue.engines import limit_ranks
from poise.core.errors import UserError
from poise.core.model import Model
from poise.core.slot import SLOTS
from poise.core.spec import Cluster, Device, Engine, Pool
from poise.cost import Fitted, Measured
from poise.plan.deploy.script import one_line
from poise.plan.deploy.setting import Setting
from poise.plan.deploy.yaml import dump
from poise.plan.fleet import Fleet
from poise.scenario.cluster import SCALES
from poise.scenario.engine_cost import EngineCost


def scenario(fleet: Fleet, setting: Setting) -> str:
    """The scenario as YAML; UserError for a model or a cost that no file can describe."""
    comments = [
        f"The plan {one_line(fleet.written)}, router {fleet.router}: `poise simulate` tries it again",
    ]
    return dump([as_dict(fleet, setting)], comments)


def as_dict(fleet: Fleet, setting: Setting) -> dict[str, Any]:
    """The scenario as plain data."""
    belief = setting.belief
    made: dict[str, Any] = {
        "cluster": _cluster(fleet.cluster()),
        "workload": dict(setting.workload),
        "policies": _policies(fleet, setting),
        "slo": {name: value for name, value in asdict(setting.slo).items() if value is not None},
        "belief": _changed(belief),
        "run": {"seeds": list(setting.seeds), "warmup_s": setting.warmup_s},
        "cost": cost(setting),
    }
    return {name: value for name, value in made.items() if value not in ({}, None)}


def _policies(fleet: Fleet, setting: Setting) -> dict[str, Any]:
    scaler = {} if setting.scaler is None else {"scaler": dict(setting.scaler)}
    preempt = {} if fleet.preempt == SLOTS["preempt"].default else {"preempt": fleet.preempt}
    return {"router": fleet.router, "batcher": fleet.batcher, **preempt, **scaler}


def cost(setting: Setting) -> Any:
    """The section `cost`."""
    recipe = setting.cost
    if isinstance(recipe, Fitted):
        if not setting.cost_file:
            raise UserError("cost was fitted, and no file is named; give the one that `poise calibrate` wrote")
        return {"fitted": setting.cost_file}
    if isinstance(recipe, EngineCost):
        drafts = {"speculative": recipe.speculative.section()} if recipe.speculative else {}
        return {"engine": recipe.engine, **_changed(replace(recipe, speculative=None)), **drafts}
    changed = _changed(recipe)
    if isinstance(recipe, Measured):
        tables = changed.pop("tables", None)
        return {"measured": changed, "tables": tables} if tables else {"measured": changed}
    return changed


def _cluster(cluster: Cluster) -> dict[str, Any]:
    made: dict[str, Any] = {"pools": [_pool(pool) for pool in cluster.pools]}
    if cluster.link_bw:
        made["link_gb_s"] = cluster.link_bw / 1e9
    if cluster.link_latency_s != Cluster(()).link_latency_s:
        made["link_latency_s"] = cluster.link_latency_s
    if cluster.faults:
        made["faults"] = [asdict(fault) for fault in cluster.faults]
    return made


def _pool(pool: Pool) -> dict[str, Any]:
    made: dict[str, Any] = {"name": pool.name} if pool.name else {}
    made |= {"model": _model(pool.model), "device": _device(pool.device), "replicas": pool.replicas}
    made |= {name: n for name in ("tensor", "pipeline", "expert", "data") if (n := getattr(pool, name)) > 1}
    made |= {"role": pool.role} if pool.role != "mixed" else {}
    made |= {name: getattr(pool, name) for name in ("weights", "kv") if getattr(pool, name) != "bf16"}
    made |= {"kv": pool.kv} if pool.precision.kv else {}
    made |= {"price": pool.price_per_hour} if pool.price_per_hour is not None else {}
    made |= {"start_s": pool.start_s} if pool.start_s else {}
    made |= {"power_cap_w": pool.power_cap_w} if pool.power_cap_w else {}
    made |= {"link_gb_s": pool.link_bw / 1e9} if pool.link_bw else {}
    bounds = {name: getattr(pool, name) for name in ("min_replicas", "max_replicas", "prewarmed")}
    made |= {name: value for name, value in bounds.items() if value}
    made |= {"startup": _changed(pool.startup)} if pool.startup is not None else {}
    engine = _engine(_own(pool))
    return made | ({"engine": engine} if engine else {})


def _own(pool: Pool) -> Engine:
    """The engine with the limits of its own settings, which are a data rank's where `limit_ranks` says so."""
    ranks, engine = limit_ranks(pool), pool.engine
    sequences = ceil(engine.max_sequences / ranks)
    budget = max(engine.token_budget // ranks, sequences)
    return replace(engine, token_budget=budget, max_sequences=sequences, rank_budget=0)


def _engine(engine: Engine) -> dict[str, Any]:
    """The fields that differ from vLLM's defaults; the version changes nothing that is simulated."""
    made = _changed(engine)
    made.pop("version", None)
    if "host_kv_bytes" in made:
        made["host_kv_gb"] = made.pop("host_kv_bytes") / 1e9
    if "lora_disk_bw" in made:
        made["lora_disk_gb_s"] = made.pop("lora_disk_bw") / 1e9
    if "swap_launch_s" in made:
        made["swap_launch_us"] = made.pop("swap_launch_s") * 1e6
    if "expert_load" in made:
        if engine.expert_load.shares:
            raise UserError("engine.expert_load: recorded shares have no place in a file; give a Zipf exponent")
        made["expert_load"] = {"zipf": engine.expert_load.zipf}
    if "lanes" in made:
        made["lanes"] = [asdict(lane) for lane in engine.lanes]
    return made


def _model(model: Model) -> str:
    """A built-in model by its name, another one by the config.json that it was read from."""
    for place in (model.name, model.source):
        try:
            if find_model(place) == model:
                return place if place == model.name else str(Path(place).expanduser().resolve())
        except (UserError, OSError):
            continue
    raise UserError(f"{model.name} is not built in and was read from no config.json; a scenario cannot name it")


def _device(device: Device) -> str | dict[str, Any]:
    """A built-in device by its name, another one by its figures."""
    try:
        if find_device(device.name, device.price_basis) == device:
            return device.name
    except UserError:
        pass
    figures = {name: _in(unit, getattr(device, field)) for name, (field, unit) in SCALES.items()}
    return {"name": device.name} | figures


def _in(unit: float, value: float) -> float:
    """The number of units that is exactly `value` when it is read."""
    near = value / unit
    return next((each for each in (near, nextafter(near, inf), nextafter(near, 0)) if each * unit == value), near)


def _changed(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults."""
    default = type(value)()
    names = [each.name for each in fields(value)]
    return {name: getattr(value, name) for name in names if getattr(value, name) != getattr(default, name)}
