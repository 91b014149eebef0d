"""A plan of expert placement, printed and as JSON."""

from __future__ import annotations

from math import ceil
from typing import Any

from poise.plan.experts.options import ExpertOptions
from poise.plan.experts.plan import Found, Plan

_HEADERS = ("placement", "balance", "worst layer", "decode ms", "prefill ms", "fetched", "GB a rank", "move s")


def show_plan(plan: Plan, name: str, options: ExpertOptions) -> None:
    """Print what was planned, what it gains, and when it has paid."""
    from poise.report.table import show

    view = plan.view
    redundant = view.ranks * view.slots - view.experts
    title = (
        f"{options.model}: {view.layers} layers of {view.experts} experts and {redundant} redundant copies on "
        f"{view.ranks} ranks, {options.device}"
    )
    rows = [_row("in force" if view.placed is not None else "in force: in order", plan.standing)]
    rows += [_row(name, plan.chosen), *(_row(other, found) for other, found in plan.others.items())]
    rows.append(("no placement can beat", f"{plan.bound.mean():.4f}", f"{plan.bound.min():.4f}", *([""] * 5)))
    show(title, _HEADERS, rows)
    print(f"Steps: {options.decodes} decodes of {options.context} tokens a rank, and prompts of {options.prompt}.")
    for step, what in (("decode_s", "decode"), ("prefill_s", "prefill")):
        print(_repaid(plan, step, what))


def _row(name: str, found: Found) -> tuple[str, ...]:
    return (
        name,
        f"{found.balance.mean():.4f}",
        f"{found.balance.min():.4f}",
        f"{found.decode_s * 1e3:.2f}",
        f"{found.prefill_s * 1e3:.2f}",
        f"{found.fetched:,}",
        f"{found.rank_bytes / 1e9:.2f}",
        f"{found.move_s:.3f}",
    )


def _repaid(plan: Plan, step: str, what: str) -> str:
    before, after = getattr(plan.standing, step), getattr(plan.chosen, step)
    steps = plan.steps_to_repay(step)
    if steps is None:
        return f"A {what} step takes as long as in force: nothing to gain."
    gain = f"A {what} step takes {100 * (1 - after / before):.1f} % less"
    if not plan.chosen.fetched:
        return f"{gain}."
    often = "one such step" if steps <= 1 else f"{ceil(steps):,} such steps"
    return f"{gain}; fetching has paid after {often} ({steps * after:.3g} s)."


def as_dict(plan: Plan, name: str, options: ExpertOptions) -> dict[str, Any]:
    """The plan as JSON has it."""
    view = plan.view
    return {
        "model": options.model,
        "device": options.device,
        "layers": view.layers,
        "experts": view.experts,
        "ranks": view.ranks,
        "slots": view.slots,
        "nodes": view.nodes,
        "groups": view.groups,
        "balancer": name,
        "in_force": _found(plan.standing),
        "chosen": {**_found(plan.chosen), "balance_by_layer": [round(float(x), 6) for x in plan.chosen.balance]},
        "others": {other: _found(found) for other, found in plan.others.items()},
        "bound": {"mean": float(plan.bound.mean()), "worst": float(plan.bound.min())},
        "steps_to_repay": {"decode": plan.steps_to_repay("decode_s"), "prefill": plan.steps_to_repay("prefill_s")},
        "physical_to_logical_map": plan.chosen.placement.physical(),
    }


def _found(found: Found) -> dict[str, Any]:
    return {
        "balance": {"mean": float(found.balance.mean()), "worst": float(found.balance.min())},
        "decode_s": found.decode_s,
        "prefill_s": found.prefill_s,
        "fetched": found.fetched,
        "rank_bytes": found.rank_bytes,
        "move_s": found.move_s,
    }
