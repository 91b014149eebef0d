"""The gateway's file: the plan's router in front of one engine for each replica."""

from __future__ import annotations

from typing import Any

from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.core.units import seconds
from poise.plan.deploy.place import EVENTS, REPLAY, Place, places
from poise.plan.deploy.reads import follows_events
from poise.plan.deploy.script import one_line
from poise.plan.deploy.setting import Setting
from poise.plan.deploy.yaml import dump
from poise.plan.fleet import Fleet

FOLLOW = (
    "How many replicas each pool is to have stands at /metrics: poise_desired_replicas, for an autoscaler to follow"
)


def gateway(fleet: Fleet, setting: Setting) -> str:
    """The file as YAML, for `poise serve`."""
    comments = [f"The gateway of {one_line(fleet.written)}: poise serve gateway.yaml"]
    known_by = "reported" if follows_events(fleet, setting) else "own"
    if setting.belief.prefix != known_by:
        comments.append(f"Prefix caches are known by belief.prefix {known_by}; simulated was {setting.belief.prefix}")
    if setting.scaler is not None:
        known = one_role_each(fleet)
        comments += [FOLLOW if known else "A gateway knows pools by role, so that it cannot scale one of several here"]
    return dump([as_dict(fleet, setting)], comments)


def as_dict(fleet: Fleet, setting: Setting) -> dict[str, Any]:
    """The file as plain data."""
    follow = follows_events(fleet, setting)
    return {
        "listen": {"host": "0.0.0.0", "port": setting.gateway_port},
        "admin": {"port": setting.gateway_port + 1},
        "engines": [engine(fleet.pools[each.pool], setting, each, follow) for each in places(fleet, setting)],
        "policies": {"router": fleet.router},
        "belief": belief(fleet, setting, follow),
    } | scaling(fleet, setting)


def scaling(fleet: Fleet, setting: Setting) -> dict[str, Any]:
    """The sections `policies` and `pools` where a scaler decides; nothing where roles have several pools."""
    if setting.scaler is None or not one_role_each(fleet):
        return {}
    pools = []
    for pool in fleet.pools:
        least, most = pool.bounds
        made: dict[str, Any] = {} if pool.role == "mixed" else {"role": pool.role}
        made |= {"min_replicas": least, "max_replicas": most}
        start_s = pool.stages.warming_s + pool.stages.loading_s
        pools.append(made | ({"start_s": round(start_s, 1)} if start_s else {}))
    return {"policies": {"router": fleet.router, "scaler": dict(setting.scaler)}, "pools": pools}


def one_role_each(fleet: Fleet) -> bool:
    """Whether a gateway, which distinguishes pools by role, can distinguish these."""
    return len({pool.role for pool in fleet.pools}) == len(fleet.pools)


def belief(fleet: Fleet, setting: Setting, follow: bool) -> dict[str, Any]:
    """The gateway's reports and belief, as simulated; a period of 0 is the gateway's own."""
    made: dict[str, Any] = {"prefix": "reported" if follow else "own"}
    if setting.belief.period_s:
        made["period_s"] = setting.belief.period_s
    if follow:
        made |= {"tokenizer": setting.tokenizer, "block_tokens": fleet.pools[0].engine.block_tokens}
    return made


def engine(pool: Pool, setting: Setting, place: Place, follow: bool) -> dict[str, Any]:
    """One engine."""
    made: dict[str, Any] = {"url": place.url, "name": place.name}
    made |= {"role": pool.role} if pool.role != "mixed" else {}
    made |= {"models": [pool.model.name], "prefill_tokens_per_s": prefill_rate(pool, setting)}
    if follow:
        host = f"[{place.head}]" if ":" in place.head else place.head
        made |= {"kv_events": f"tcp://{host}:{place.port + EVENTS}", "kv_replay": f"tcp://{host}:{place.port + REPLAY}"}
    return made


def prefill_rate(pool: Pool, setting: Setting) -> float:
    """Prompt tokens per second at a full token budget, to a tenth."""
    tokens = min(pool.engine.token_budget, pool.model.max_context)
    return round(tokens / seconds(setting.cost.build(pool).step(StepShape(0, (Chunk(tokens, 0),))).base), 1)
