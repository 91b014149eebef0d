"""A small question: a model, two devices, a load of a few requests per second."""

from __future__ import annotations

from dataclasses import replace

from poise.catalogue import device, model
from poise.core.spec import Engine, Pool, Slo
from poise.cost import Roofline
from poise.plan.demand import Demand, demand_of
from poise.plan.goal import Aim, Goal
from poise.plan.trial import Bench
from poise.plan.unit import units
from poise.workload import Workload, poisson

MODEL = model("llama-3.1-8b")
DEVICES = (device("H100"), device("L40S"))
PRICES = {"H100-SXM-80GB": 3.0, "L40S": 1.0}
COST = Roofline()


def a_demand(rate: float = 30.0, requests: int = 500, seeds: int = 1) -> Demand:
    """Poisson arrivals of spread lengths. seeds: of which one is searched; those after them confirm."""
    prompt, output = {"lognormal": {"mean": 600, "cv": 0.8}}, {"lognormal": {"mean": 120, "cv": 0.8}}

    def make(seed: int) -> Workload:
        return poisson(rate=rate, requests=requests, prompt_tokens=prompt, output_tokens=output, seed=seed)

    return demand_of([make(seed) for seed in range(seeds)], name="load", requests=requests, make=make)


def a_goal(ttft_s: float = 0.5, tpot_s: float = 0.05, minimize: Aim = "cost", attainment: float = 0.95) -> Goal:
    """An SLO that takes several replicas."""
    return Goal(Slo(ttft_s, tpot_s), attainment, minimize)


def a_bench(demand: Demand | None = None, goal: Goal | None = None) -> Bench:
    """Where trials are made."""
    return Bench(demand or a_demand(), goal or a_goal(), COST)


def pools(widest: int = 2) -> tuple[Pool, ...]:
    """Replicas of the model on both devices, 16 requests at once."""
    return units(MODEL, DEVICES, PRICES, engine=replace(Engine(), max_sequences=64), widest=widest).able
