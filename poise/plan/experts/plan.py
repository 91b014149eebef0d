"""A plan of expert placement: a load and ranks in, the placement and what it gains out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from poise.core.estimate import Chunk, StepShape
from poise.core.experts import ExpertLoad
from poise.core.model import Model
from poise.core.precision import Format
from poise.core.spec import Device, Engine, Pool
from poise.core.units import SECOND
from poise.experts import ExpertBalancer, ExpertPlacement, ExpertView, least_busiest
from poise.scenario.engine_cost import cost_for


@dataclass(frozen=True, slots=True)
class Work:
    """What each rank has in the steps that are priced: requests that decode with a context, or a prompt's tokens."""

    decodes: int
    context: int
    prompt: int


@dataclass(frozen=True, slots=True)
class Found:
    """One placement under the load.

    balance: of each layer the mean load of a rank over the largest.  decode_s, prefill_s: seconds of the two steps.
    fetched: experts that ranks fetch, all layers.  move_s: seconds that the rank with most of them takes over its link.
    rank_bytes: what that rank fetches.
    """

    placement: ExpertPlacement
    balance: NDArray[Any]
    decode_s: float
    prefill_s: float
    fetched: int
    rank_bytes: float
    move_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What was found: the placement in force, the chosen one and those that it is compared with, by name.

    bound: of each layer the best balance that any placement in as many slots could have.
    """

    view: ExpertView
    standing: Found
    chosen: Found
    others: Mapping[str, Found]
    bound: NDArray[Any]

    def steps_to_repay(self, step: str) -> float | None:
        """Steps of `decode_s` or `prefill_s` after which the fetches have paid; None where the step gains nothing."""
        gain = getattr(self.standing, step) - getattr(self.chosen, step)
        return self.chosen.move_s / gain if gain > 0 else None


def make(
    view: ExpertView, pool: Pool, chosen: ExpertBalancer, others: Mapping[str, ExpertBalancer], work: Work
) -> Plan:
    """The plan of `chosen`, and of `others` beside it. pool: one replica whose ranks share the experts."""
    standing = view.standing()
    busiest = least_busiest(view.counts, view.ranks, view.slots)
    return Plan(
        view,
        _priced(view, pool, standing, work),
        _priced(view, pool, chosen.rebalance(view), work),
        {name: _priced(view, pool, each.rebalance(view), work) for name, each in others.items()},
        view.counts.sum(axis=1) / view.ranks / busiest,
    )


def _priced(view: ExpertView, pool: Pool, placement: ExpertPlacement, work: Work) -> Found:
    fetched = placement.fetched(view.standing())
    most = int(fetched.sum(axis=(0, 2)).max())
    size = pool.model.expert_parameters * pool.precision.experts.bits / 8
    decode_s, prefill_s = steps_s(view, pool, placement, work)
    return Found(
        placement,
        placement.balance(view.counts),
        decode_s,
        prefill_s,
        int(fetched.sum()),
        most * size,
        most * size / link_bw(pool) if most else 0.0,
    )


def link_bw(pool: Pool) -> float:
    """Bytes per second at which a rank fetches weights: in a scale-up domain, over its network card, or its host's."""
    device = pool.device
    if pool.expert <= device.scaleup_domain and device.scaleup_bw:
        return device.scaleup_bw
    return device.scaleout_bw or device.host_bw


def steps_s(view: ExpertView, pool: Pool, placement: ExpertPlacement, work: Work) -> tuple[float, float]:
    """Seconds of a step of decodes and of one of prompts on all ranks, under this load and placement."""
    shares = tuple(tuple(row / row.sum()) for row in view.counts)
    engine = replace(pool.engine, expert_load=ExpertLoad(shares=shares), expert_placement=placement.holders())
    estimator = cost_for(replace(pool, engine=engine), engine.name, "")
    decodes = work.decodes * pool.data
    shapes = StepShape(decodes), StepShape(0, (Chunk(work.prompt, 0),) * pool.data)
    read = decodes * work.context
    pieces = [estimator.step(shape).at(tokens) for shape, tokens in zip(shapes, (read, 0), strict=True)]
    decode, prefill = ((piece.base + piece.per_kv * n) / SECOND for piece, n in zip(pieces, (read, 0), strict=True))
    return decode, prefill


def pool_of(model: Model, device: Device, ranks: int, weights: Format, engine: str) -> Pool:
    """One replica: attention by data ranks, experts over all of them, all to all."""
    return Pool(
        model,
        device,
        data=ranks,
        expert=ranks,
        weights=weights,
        engine=Engine(name=engine, expert_exchange="all_to_all"),
    )
