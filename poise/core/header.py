"""What a recording says before its first event: whose decisions they are, on which replicas and on what belief."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from poise.core.errors import TraceError
from poise.core.spec import Belief, PoolSpec, ReplicaSpec


def header(
    replicas: Sequence[ReplicaSpec],
    belief: Belief,
    policies: Mapping[str, Any],
    *,
    seed: int = 0,
    resume: bool = True,
    models: Sequence[str] = (),
    engines: Sequence[Mapping[str, Any]] = (),
    pools: Sequence[PoolSpec] = (),
    **more: Any,
) -> dict[str, Any]:
    """Plain data from which a `Control` can be built again, and a simulation of what it controlled.

    policies: for each slot `{name: parameters}`, None where there is none.  models: names, by index.
    engines: for each replica what is known of it: name, url (without credentials), and fields of `spec.Engine`.
    pools: those that a scaler may change.
    more: what else a reader may want: versions, when it began, which hash names extents.
    """
    return {
        "replicas": [replica._asdict() for replica in replicas],
        "belief": asdict(belief),
        "policies": dict(policies),
        "seed": seed,
        "resume": resume,
        "models": list(models),
        "engines": [dict(engine) for engine in engines],
        "pools": [pool._asdict() for pool in pools],
        **more,
    }


def replicas_of(told: Mapping[str, Any]) -> list[ReplicaSpec]:
    """The replicas that a header names; TraceError where it does not."""
    named = [{**each, "tenants": tuple(each.get("tenants", ()))} for each in _part(told, "replicas", list)]
    return [_made(ReplicaSpec, each, "replicas") for each in named]


def pools_of(told: Mapping[str, Any]) -> list[PoolSpec]:
    """The pools that a header names; none in one that was written before there were scalers."""
    return [_made(PoolSpec, each, "pools") for each in told.get("pools", ())]


def belief_of(told: Mapping[str, Any]) -> Belief:
    """The belief that a header names; TraceError where it does not."""
    made: Belief = _made(Belief, _part(told, "belief", dict), "belief")
    return made


def _part(told: Mapping[str, Any], name: str, kind: type) -> Any:
    if not isinstance(told.get(name), kind):
        raise TraceError(
            f"the header has no {name}; record with `poise serve --record`, or again with this version's "
            "`poise simulate --trace-events`"
        )
    return told[name]


def _made(kind: Any, fields: Any, name: str) -> Any:
    try:
        return kind(**fields)
    except TypeError as error:
        raise TraceError(
            f"the header's {name} cannot be read ({error}); read it with the version of Poise that wrote it"
        ) from None
