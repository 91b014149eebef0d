"""A plan as plain data: the JSON that `poise plan --json` writes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from poise.core.version import version
from poise.plan.plan import Plan
from poise.plan.scale import Scaled, pool_name
from poise.plan.sureness import model_error
from poise.plan.trial import Trial
from poise.plan.verdict import answer, binding, nothing, slack


def as_dict(plan: Plan) -> dict[str, Any]:
    """Everything that the tables show, and all trials."""

    ask, demand, best = plan.ask, plan.demand, plan.best
    return {
        "answer": answer(plan),
        "poise": version(),
        "model": ask.model.name,
        "goal": asdict(ask.goal),
        "prices": {"basis": ask.basis, "per_device_hour": {name: asdict(each) for name, each in ask.prices.items()}},
        "traffic": {
            "from": ask.source.name, "rate": demand.rate, "prompt_tokens": demand.prompt,
            "output_tokens": demand.output, "reachable_hit_rate": demand.hit, "longest_tokens": demand.longest,
            "requests_simulated": len(demand.stretches[0]), "recorded": demand.recorded,
            "notes": list(demand.notes),
        },
        "plan": None if best is None else _plan(plan, best),
        "times_to_decide": plan.times,
        "sure": None if plan.sure is None else plan.sure.as_dict(),
        "why_none": [] if best is not None else nothing(plan),
        "without_limits": None if plan.unlimited is None else plan.unlimited.as_dict(),
        "next_best": [trial.as_dict() for trial in plan.ranked[1:]],
        "by_predicted_values_alone": None if plan.alone is None else plan.alone.as_dict(),
        "model_error": model_error(plan),
        "refuted": [trial.as_dict() for trial in plan.refuted],
        "pareto": [trial.as_dict() for trial in plan.pareto],
        "changes": None if plan.changes is None else asdict(plan.changes),
        "autoscaling": None if plan.scaling is None else {**asdict(plan.scaling), "saves_about": plan.scaling.saved},
        "scaled": None if plan.scaled is None else _scaled(plan.scaled),
        "spot": None if plan.spot is None else {
            "fleet": plan.spot.fleet.written, "spares": plan.spot.spares, "price_per_hour": plan.spot.price_per_hour,
            "enough_up": plan.spot.up, "attainment_when_reclaimed": plan.spot.reclaimed,
        },
        "search": {
            "kinds": len(plan.space.kinds), "left_out": plan.found.left_out, "trials": len(plan.found.trials),
            "interrupted": plan.found.interrupted, "do_not_fit": dict(plan.units.refused),
            "do_not_hold": plan.found.why, "first_s": plan.first_s, "wall_s": plan.wall_s,
        },
    }  # fmt: skip


def _scaled(scaled: Scaled) -> dict[str, Any]:
    best = scaled.best
    return {
        "pool": pool_name(scaled), "start_s": scaled.start_s, "startup": asdict(scaled.fleet.pools[scaled.pool].stages),
        "hours": scaled.hours, "constant": asdict(scaled.constant), "best": None if best is None else asdict(best),
        "saved": scaled.saved, "tried": [asdict(each) for each in scaled.tried], "curves": scaled.curves,
        "wall_s": scaled.wall_s,
    }  # fmt: skip


def _plan(plan: Plan, best: Trial) -> dict[str, Any]:
    pools = [
        {
            "device": pool.device.name, "replicas": pool.replicas, "role": pool.role, "tensor": pool.tensor,
            "pipeline": pool.pipeline, "data": pool.data, "expert": pool.expert, "weights": pool.weights,
            "kv": pool.kv, "token_budget": pool.engine.token_budget, "max_sequences": pool.engine.max_sequences,
            "power_cap_w": pool.power_cap_w or None,
        }
        for pool in best.fleet.pools
    ]  # fmt: skip
    return {
        **best.as_dict(), "pools": pools, "slack": slack(best, plan.ask.goal),
        "confidence_with_chance": best.surety(plan.ask.goal), "binding": binding(plan),
    }  # fmt: skip
