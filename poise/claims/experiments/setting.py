"""The scenario of a claim with some of its values changed, and what is built from it for one policy."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poise.claims.bench import SHARE, Bench
from poise.claims.claim import Claim

if TYPE_CHECKING:
    from poise.scenario.build import Problem


def scenario(claim: Claim, bench: Bench, changes: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
    """Setting and policies with values changed by path; a quick run has fewer requests, or half of the time, unless it
    is `whole`."""
    data: dict[str, Any] = {**deepcopy(claim.setting), "compare": deepcopy(claim.compare)}
    for path, value in changes.items():
        put(data, path, int(value) if isinstance(value, float) and value.is_integer() else deepcopy(value))
    _with_files(data["workload"], claim, bench)
    if not whole:
        _shortened(data, bench)
    return data


def _with_files(workload: dict[str, Any], claim: Claim, bench: Bench) -> None:
    """Put the place of each recorded trace where the workload names it; UserError where it is not there."""
    named = {source.file: at for at, source in enumerate(claim.data)}
    for source in (workload, *(each for each in workload.values() if isinstance(each, dict))):
        if source.get("trace") in named:
            source["trace"] = str(bench.file(named[source["trace"]]).resolve())


def _shortened(data: dict[str, Any], bench: Bench) -> None:
    """Fewer requests, or half of the time, and of what is left out at the start as well."""
    workload, run = data["workload"], data.get("run", {})
    counted = [each for each in workload.values() if isinstance(each, dict) and "requests" in each]
    if "limit" in workload:
        workload["limit"] = bench.requests(workload["limit"])
    for source in counted:
        source["requests"] = bench.requests(source["requests"])
    for phase in workload.get("phases", []):
        phase["duration_s"] = bench.duration(phase["duration_s"])
    for source in (each for each in workload.values() if isinstance(each, dict) and "duration_s" in each):
        source["duration_s"] = bench.duration(source["duration_s"])
        if "warmup_s" in run and not counted:
            run["warmup_s"] = bench.duration(run["warmup_s"])
    if "warmup_s" in run and bench.quick and (counted or "limit" in workload):
        run["warmup_s"] = run["warmup_s"] / SHARE


def put(data: dict[str, Any], path: str, value: Any) -> None:
    """Put a value at a path with dots; a part in digits is the place in a list."""
    *way, last = path.split(".")
    here: Any = data
    for part in way:
        here = here[int(part)] if part.isdecimal() else here.setdefault(part, {})
    here[int(last) if isinstance(here, list) else last] = value


def built(data: Mapping[str, Any], label: str, bench: Bench) -> Problem:
    """The scenario with one of the policies; UserError that names the field."""
    from poise.scenario.build import build
    from poise.scenario.checks import check
    from poise.scenario.load import Loaded, validated
    from poise.scenario.place import Places

    whole = {name: value for name, value in data.items() if name != "compare"}
    whole["policies"] = {**data.get("policies", {}), **data["compare"].get(label, {})}
    places = Places(f"setting and compare.{label}")
    found = validated(whole, places)
    check(found, places)
    return build(Loaded(found, places, bench.data or Path()))
