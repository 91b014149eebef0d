"""`poise experts plan`: read a load, plan, print, and write what engines read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.catalogue import device, model
from poise.catalogue.models import published_format
from poise.core.errors import UserError
from poise.core.model import Model
from poise.cost.expert_files import read_counts
from poise.experts import ExpertPlacement, ExpertView
from poise.plan.experts.exports import sglang, vllm
from poise.plan.experts.options import BALANCER, ExpertOptions
from poise.plan.experts.plan import Work, make, pool_of
from poise.plan.experts.shown import as_dict, show_plan
from poise.policies.find import build
from poise.scenario.experts import read_placement
from poise.scenario.write import check_json, check_writable, put_json, write_json

BESIDE = ("eplb", "floating_copies", "few_moves")
"""Balancers that the plan is compared with, besides the placement in force."""


def plan_experts(options: ExpertOptions) -> None:
    """Plan the placement of a model's experts and print it."""
    check_json(options.json)
    if options.out is not None:
        check_writable(options.out / "plan.json", "--out")
    known = model(options.model)
    if known.moe is None:
        raise UserError(f"--model {options.model}: has no experts; name a mixture of experts, as in deepseek-v3")
    counts, layers = _load(options, known)
    view = ExpertView(
        counts, options.ranks, _slots(options, counts.shape[1]), options.nodes, options.groups,
        placed=_placed(options, layers, counts.shape[1]), moves=options.moves,
    )  # fmt: skip
    name = "few_moves" if options.moves is not None and options.balancer == BALANCER else options.balancer
    work = Work(options.decodes, options.context, options.prompt)
    pool = pool_of(known, device(options.device), options.ranks, published_format(options.model), options.engine)
    beside = (
        {} if options.moves is not None else {each: build("expert_balancer", each) for each in BESIDE if each != name}
    )
    plan = make(view, pool, build("expert_balancer", name), beside, work)
    result = as_dict(plan, name, options)
    if options.out is not None:
        write_json(sglang(plan.chosen.placement, layers, known.layers), options.out / "sglang.json")
        write_json(vllm(plan.view), options.out / "vllm.json")
        write_json(result, options.out / "plan.json")
    put_json(result, options.json)
    if options.json != "-":
        show_plan(plan, name, options)


def _load(options: ExpertOptions, known: Model) -> tuple[NDArray[Any], list[int]]:
    """(layers of experts × experts) pairs, and the layers of the model that they are."""
    assert known.moe is not None
    found = read_counts(options.counts, known.moe.active)
    if found.shape[1] != known.moe.experts:
        raise UserError(
            f"{options.counts}: has {found.shape[1]} experts a layer, and {known.name} has {known.moe.experts}; give "
            "the load of this model"
        )
    used = [int(each) for each in np.flatnonzero(found.sum(axis=1) > 0)]
    if not used:
        raise UserError(
            f"{options.counts}: no expert of any layer has a token; give a load that was recorded under traffic"
        )
    if len(found) == known.layers:
        return found[used], used
    dense = known.layers - known.moe.layers
    if len(used) > known.moe.layers:
        raise UserError(
            f"{options.counts}: has {len(used)} layers of experts, and {known.name} has {known.moe.layers}; give the "
            "load of this model"
        )
    return found[used], [dense + each for each in range(len(used))]


def _slots(options: ExpertOptions, experts: int) -> int:
    """Copies of a layer's experts on a rank."""
    total = experts + options.redundant
    if total % options.ranks:
        more = -total % options.ranks
        raise UserError(
            f"--redundant {options.redundant}: {experts} experts and as many copies do not divide by {options.ranks} "
            f"ranks; give {options.redundant + more}"
        )
    return total // options.ranks


def _placed(options: ExpertOptions, layers: list[int], experts: int) -> ExpertPlacement | None:
    """The placement that `--placed` names, for the layers of the load."""
    if options.placed is None:
        return None
    try:
        return read_placement(options.placed, layers, experts, options.ranks)
    except UserError as error:
        raise UserError(f"--placed {error}") from None
