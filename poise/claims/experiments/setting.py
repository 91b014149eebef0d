"""The scenario of a claim with some of its values changed, and what is built from it for one policy."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poise.claims.bench import Bench
from poise.claims.claim import Claim

if TYPE_CHECKING:
    from poise.scenario.build import Problem


def scenario(claim: Claim, bench: Bench, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Setting and policies with values changed by path; a quick run has fewer requests, or half of the time."""
    data: dict[str, Any] = {**deepcopy(claim.setting), "compare": deepcopy(claim.compare)}
    for path, value in changes.items():
        put(data, path, int(value) if isinstance(value, float) and value.is_integer() else deepcopy(value))
    for source in data["workload"].values():
        if isinstance(source, dict) and "requests" in source:
            source["requests"] = bench.requests(source["requests"])
        if isinstance(source, dict) and "duration_s" in source:
            source["duration_s"] = bench.duration(source["duration_s"])
    return data


def put(data: dict[str, Any], path: str, value: Any) -> None:
    """Put a value at a path with dots; a part in digits is the place in a list."""
    *way, last = path.split(".")
    here: Any = data
    for part in way:
        here = here[int(part)] if part.isdecimal() else here.setdefault(part, {})
    here[last] = value


def built(data: Mapping[str, Any], label: str, bench: Bench) -> Problem:
    """The scenario with one of the policies; UserError that names the field."""
    from poise.scenario.build import build
    from poise.scenario.checks import check
    from poise.scenario.load import Loaded, validated
    from poise.scenario.place import Places

    whole = {name: value for name, value in data.items() if name != "compare"}
    whole["policies"] = data["compare"][label]
    places = Places(f"setting and compare.{label}")
    found = validated(whole, places)
    check(found, places)
    return build(Loaded(found, places, bench.data or Path()))
