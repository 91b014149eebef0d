"""Whether the cells in a folder may be reused: those of the same scenario, policies, code, data and Poise."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import fields
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from poise.core.errors import UserError
from poise.core.slot import SCENARIO
from poise.experiment.store import check_free, check_same, digest
from poise.policies import Policies
from poise.scenario.build import Problem
from poise.scenario.compare.store import Store
from poise.scenario.read import read_yaml
from poise.scenario.write import write_resolved

RESOLVED = "scenario.resolved.yaml"

_OWN = {"policies", "compare", "provenance"}
"""Sections in which comparisons that share cells may differ."""


def opened(folder: Path, problem: Problem, facts: dict[str, Any], *, resume: bool) -> Store:
    """The store in `folder`, with the resolved scenario (`provenance` of the problem) written into it.

    UserError where it has cells of an earlier comparison and they are not to be used, or cannot be: it names the first
    field that changed.
    """
    common = basis(facts)
    store = Store(folder, _prints(problem, facts, common))
    there = store.finished()
    check_free(folder, there, resume=resume)
    if there:
        check_same(folder, _before(folder), common)
    write_resolved(facts, folder / RESOLVED)
    return store


def basis(facts: dict[str, Any]) -> dict[str, Any]:
    """The inputs of a cell's figures besides policy, load and seed, as JSON gives them back; of `provenance`."""
    scenario = facts["scenario"]
    kept = {name: value for name, value in scenario.items() if name not in _OWN}
    kept["run"] = {name: value for name, value in kept["run"].items() if name != "seeds"}
    data = {"Poise": facts["poise"], **kept, "cost data": facts["cost"], "trace data": facts["workload"].get("sha256")}
    plain: dict[str, Any] = json.loads(json.dumps(data))
    return plain


def _prints(problem: Problem, facts: dict[str, Any], common: dict[str, Any]) -> dict[str, str]:
    """For each policy a digest of the inputs of its cells except load and seed."""
    lists = [facts["scenario"]["policies"][slot] for slot in SCENARIO]
    chosen = product(*(each if isinstance(each, list) else [each] for each in lists))
    return {
        label: digest([common, list(names), list(foreign(policies))])
        for (label, policies), names in zip(problem.bundles, chosen, strict=True)
    }


def foreign(policies: Policies) -> Iterator[str]:
    """Digests of the files that define policies from outside Poise."""
    filled = [getattr(policies, slot.name) for slot in fields(policies)]
    for policy in [part for each in filled for part in (each if isinstance(each, tuple) else (each,))]:
        kind = type(policy)
        if kind.__module__.partition(".")[0] not in ("poise", "builtins"):
            yield sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest()


def _before(folder: Path) -> dict[str, Any]:
    """The inputs of the cells in a folder."""
    file = folder / RESOLVED
    resolved, _ = read_yaml(file, str(file))
    if not isinstance(resolved.get("provenance"), dict):
        raise UserError(f"{file}: does not say what the cells beside it are; name another folder with --out")
    return basis({"scenario": resolved, **resolved["provenance"]})
