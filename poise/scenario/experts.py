"""The experts of a pool as its engine section states them: how popular they are, and which ranks hold them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from poise.core.errors import UserError
from poise.core.experts import BALANCED, ExpertLoad
from poise.core.slot import SLOTS
from poise.core.spec import Pool
from poise.cost.expert_files import read_load
from poise.cost.expert_load import inclusion
from poise.experts import ExpertPlacement, ExpertView
from poise.experts.placement import from_physical
from poise.policies.find import build
from poise.scenario.checks import engine_of
from poise.scenario.load import Loaded
from poise.scenario.place import Path as Place
from poise.scenario.schema import ExpertPlacementSection, PoolSection, StatedLoad


def with_experts(loaded: Loaded, section: PoolSection, pool: Pool, path: Place) -> Pool:
    """The pool with the load and the placement of its experts that its engine section states."""
    engine, own = engine_of(loaded.scenario, section), section.engine.model_fields_set
    at: Place = (*path, "engine") if "expert_load" in own else ("engine",)
    pool = replace(pool, engine=replace(pool.engine, expert_load=_load(loaded, engine.expert_load, pool, at)))
    stated = engine.expert_placement
    if stated is None:
        return pool
    at = (*path, "engine") if "expert_placement" in own else ("engine",)
    try:
        found = _placed(loaded, stated, pool, (*at, "expert_placement")).holders()
    except UserError as error:
        raise loaded.places.error((*at, "expert_placement"), str(error)) from None
    return replace(pool, engine=replace(pool.engine, expert_placement=found))


def _load(loaded: Loaded, stated: StatedLoad, pool: Pool, at: Place, name: str = "expert_load") -> ExpertLoad:
    if stated == "balanced":
        return BALANCED
    if isinstance(stated, str):
        return ExpertLoad()
    if stated.file is None:
        return ExpertLoad(zipf=stated.zipf)
    at = (*at, name, "file")
    try:
        return read_load(loaded.file(stated.file, at), pool)
    except UserError as error:
        raise loaded.places.error(at, str(error)) from None


def _placed(loaded: Loaded, stated: ExpertPlacementSection, pool: Pool, at: Place) -> ExpertPlacement:
    """The placement of a file, or of a balancer with the load that it saw."""
    moe = pool.model.moe
    if moe is None or pool.expert == 1:
        raise UserError("its experts are all on one rank; give the pool `expert` ranks of a model with experts")
    if stated.file is not None:
        given = stated.model_fields_set - {"file"}
        if given:
            raise UserError(f"a file states the whole placement; leave out {', '.join(sorted(given))}, or the file")
        layers = range(pool.model.layers - moe.layers, pool.model.layers)  # dense ones are the first
        return read_placement(loaded.file(stated.file, (*at, "file")), layers, moe.experts, pool.expert)
    total = moe.experts + stated.redundant
    if total % pool.expert:
        raise UserError(
            f"{moe.experts} experts and {stated.redundant} redundant copies do not divide by {pool.expert} ranks; give "
            f"redundant: {stated.redundant + -total % pool.expert}"
        )
    chances = inclusion(pool.engine.expert_load, moe.experts, moe.active)
    if stated.seen is not None:
        seen = _load(loaded, stated.seen, pool, at, "seen")
        rows = np.arange(len(chances))
        chances = inclusion(seen, moe.experts, moe.active)
        if not seen.shares:  # the favourites of a law's layers stand for those of any
            chances = chances[rows % len(chances)]
    found: ExpertPlacement = build("expert_balancer", stated.balancer or SLOTS["expert_balancer"].default).rebalance(
        ExpertView(chances, pool.expert, total // pool.expert, stated.nodes, stated.groups)
    )
    if found.parts is not None:
        raise UserError(
            f"{stated.balancer} splits an expert's tokens unevenly, and engines spread them evenly; name another one"
        )
    return found


def read_placement(file: Path, layers: Sequence[int], experts: int, ranks: int) -> ExpertPlacement:
    """The placement in a file that SGLang's `--init-expert-location` takes; UserError where it has none of this shape.

    layers: of the model, those that have experts, where the file has all of the model's.
    """
    try:
        read = json.loads(file.read_text(encoding="utf-8"))["physical_to_logical_map"]
        rows = [[int(each) for each in row] for row in read]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{file}: holds no physical_to_logical_map ({error}); give the JSON file that --init-expert-location takes"
        ) from error
    if len(rows) != len(layers) and max(layers) >= len(rows):
        raise UserError(f"{file}: has {len(rows)} layers, and {len(layers)} have experts; give one of the same model")
    chosen = rows if len(rows) == len(layers) else [rows[each] for each in layers]
    try:
        return from_physical(chosen, experts, ranks)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
