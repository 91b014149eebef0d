"""What is known of a prediction: the conditions by which `poise.intervals` states how far it may be off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from poise.catalogue.engines import engine_defaults
from poise.core.errors import PoiseError
from poise.core.model import Model
from poise.core.spec import Engine, Pool
from poise.cost.origin import How, origins_of
from poise.cost.origin import Origin as Evidence
from poise.cost.training import Job, Layout
from poise.intervals.conditions import Conditions, FigureKind, Origin
from poise.scenario.engine_cost import cost_for

MAIN = ("gemm", "decode", "mla_decode", "mla_decode_module", "moe", "moe_ep")
"""Operators that make most of a step."""


def conditions(
    figure: FigureKind,
    pools: Sequence[Pool],
    engine: str,
    version: str,
    *,
    load: str = "rate",
    tail: bool = False,
    guessed: bool = False,
    origin: Origin | None = None,
) -> Conditions:
    """The conditions of a figure of `pools` under an engine; the last pool decodes.

    origin: where step times come from (default: what the measured tables have of that pool).
    """
    pool = pools[0] if figure == "ttft" else pools[-1]
    return Conditions(
        figure=figure, load=load, tail=tail, disagg=len({each.role for each in pools}) > 1, guessed=guessed,
        engine=era(engine, version), device=pool.device.name, vendor=pool.device.vendor, model=pool.model.name,
        kind=kind_of(pool.model), weights=pool.weights, devices=pool.devices,
        origin=origin or origin_of(pool, engine, version),
    )  # fmt: skip


def training_conditions(
    figure: FigureKind, job: Job, layout: Layout, *, engine: str = "", model: str = "", guessed: bool = False
) -> Conditions:
    """The conditions of a figure of a training step; software and a published model that are not named are unseen."""
    return Conditions(
        figure=figure, load="pipeline" if layout.pipeline > 1 else "whole", guessed=guessed,
        engine=engine, device=job.device.name, vendor=job.device.vendor, model=model,
        kind=kind_of(job.model), weights=job.precision, devices=job.devices, origin="roofline",
    )  # fmt: skip


def era(engine: str, version: str) -> str:
    """An engine and the version from which on it behaves as in `version`; `other` where it is not known."""
    found = engine_defaults(engine, version)
    return f"{found.name} {found.since}".strip() if found.known else "other"


def kind_of(model: Model) -> str:
    """The family of a model's architecture."""
    if model.linear_layers:
        return "linear"
    return "mla" if model.mla else "moe" if model.moe else "dense"


def origin_of(pool: Pool, engine: str, version: str) -> Origin:
    """Where the times of its main operators come from, at worst."""
    return _origin(replace(pool, replicas=1, role="mixed", engine=Engine(), name=""), engine, version)


@cache
def _origin(pool: Pool, engine: str, version: str) -> Origin:
    try:
        found = origins_of(cost_for(pool, engine, version))
    except PoiseError:
        return "borrowed"
    return worst(found)


def worst(origins: Sequence[Evidence]) -> Origin:
    """The worst evidence behind the main operators; the roofline's where there is none."""
    hows = [each.how for each in origins if each.kind in MAIN]
    if not hows or How.ROOFLINE in hows:
        return "roofline"
    return "borrowed" if How.BORROWED in hows else "measured"
