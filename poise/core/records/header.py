"""The header of a recording: the policies, replicas and belief of its decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from poise.core.errors import TraceError
from poise.core.records.fields import checker, hints
from poise.core.spec import Belief, Engine, PoolSpec, ReplicaSpec
from poise.core.units import NEVER


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
    engines: for each replica its known properties: name, url (without credentials), and fields of `spec.Engine`.
    pools: those that a scaler may change.
    more: further facts for readers: versions, when it began, which hash names extents.
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


def replicas_of(header: Mapping[str, Any]) -> list[ReplicaSpec]:
    """The replicas that a header names; TraceError where it does not."""
    named = [{**each, "tenants": tuple(each.get("tenants", ()))} for each in _part(header, "replicas", list)]
    return [_made(ReplicaSpec, each, "replicas") for each in named]


def pools_of(header: Mapping[str, Any]) -> list[PoolSpec]:
    """The pools that a header names; none in one that was written before there were scalers."""
    return [_made(PoolSpec, each, "pools") for each in header.get("pools", ())]


def belief_of(header: Mapping[str, Any]) -> Belief:
    """The belief that a header names; TraceError where it does not."""
    made: Belief = _made(Belief, _part(header, "belief", dict), "belief")
    return made


def check_header(header: Mapping[str, Any]) -> None:
    """TraceError, naming the field, where a part of a header is of another type than `header` writes."""
    try:
        _check(header)
    except ValueError as error:
        raise TraceError(f"the header's {error}, which no recording has; give it as it was written") from None


def _check(header: Mapping[str, Any]) -> None:
    for name, kind in _SHAPES.items():
        if name in header and not isinstance(header[name], kind):
            raise ValueError(f"{name} is {header[name]!r}")
    for name, kind in _FIELDS.items():
        parts = header.get(name, ())
        for each in [parts] if isinstance(parts, dict) else parts:
            _check_fields(name, each, kind)
    if header.get("engines") and len(header["engines"]) != len(header.get("replicas", ())):
        raise ValueError(f"engines are {len(header['engines'])} for {len(header.get('replicas', ()))} replicas")
    if not all(isinstance(name, str) for name in header.get("models", ())):
        raise ValueError(f"models is {header['models']!r}")
    began = header.get("began", {}).get("at", 0)
    if type(began) is not int or not 0 <= began <= NEVER:
        raise ValueError(f"began.at is {began!r}")
    for slot, named in header.get("policies", {}).items():
        for each in named if isinstance(named, list) else [named]:
            if named is not None and not _is_policy(each):
                raise ValueError(f"policies.{slot} is {each!r}")


def _check_fields(name: str, header: Any, kind: Any) -> None:
    if not isinstance(header, dict):
        raise ValueError(f"{name} holds {header!r}")
    known = {field: hint for field, hint in hints(kind).items() if field in header}
    try:
        checker(known)([header[field] for field in known])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    for field in known:
        value, least = header[field], _LEAST.get(field, -1)
        if isinstance(value, int | float) and not least <= value <= NEVER:
            raise ValueError(f"{name}: {field} is {value!r}")


def _is_policy(header: Any) -> bool:
    return isinstance(header, dict) and len(header) == 1 and all(isinstance(v, dict | None) for v in header.values())


_SHAPES: dict[str, type] = {
    **dict.fromkeys(("belief", "began", "policies"), dict),
    **dict.fromkeys(("replicas", "engines", "pools", "models"), list),
    "seed": int,
    "resume": bool,
}

_FIELDS: dict[str, Any] = {"belief": Belief, "replicas": ReplicaSpec, "pools": PoolSpec, "engines": Engine}
"""What parts of a header are written from, one or a list of them."""

_LEAST = {"block_tokens": 1, "gateways": 1, "max_sequences": 1, "token_budget": 1}


def _part(header: Mapping[str, Any], name: str, kind: type) -> Any:
    if not isinstance(header.get(name), kind):
        raise TraceError(
            f"the header has no {name}; record with `poise serve --record`, or again with this version's "
            "`poise simulate --trace-events`"
        )
    return header[name]


def _made(kind: Any, fields: Any, name: str) -> Any:
    try:
        return kind(**fields)
    except TypeError as error:
        raise TraceError(
            f"the header's {name} cannot be read ({error}); read it with the version of Poise that wrote it"
        ) from None
