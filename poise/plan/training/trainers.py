"""The part of a search space that a trainer runs, so that every layout found has an export."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from poise.core.errors import UserError
from poise.cost.training.schedules import FORMS
from poise.plan.training.space import Space


@dataclass(frozen=True, slots=True)
class Trainer:
    """What a trainer takes; None takes everything. usual: sharding stages searched by default.

    pipelined: sharding stages that it takes together with a pipeline.
    """

    zero: tuple[int, ...] = (0, 1, 2, 3)
    usual: tuple[int, ...] = (1, 3)
    pipelined: tuple[int, ...] = (0, 1, 2, 3)
    schedule: tuple[str, ...] = tuple(name for name, form in FORMS.items() if form.copies == 1)
    context: tuple[int, ...] | None = None
    expert: tuple[int, ...] | None = None
    expert_tensor: tuple[int, ...] | None = None
    offload_activations: tuple[float, ...] | None = None


TRAINERS = {
    "torchtitan": Trainer((0, 2, 3), (0, 2, 3), expert_tensor=(1,), offload_activations=(0.0,)),
    "megatron": Trainer(schedule=("one_f_one_b", "interleaved"), offload_activations=(0.0,)),
    "deepspeed": Trainer(pipelined=(0, 1), schedule=("one_f_one_b",), context=(1,), expert=(1,)),
}
"""What the exports of `exports` state; one that cannot be stated raises there."""

USUAL = (1, 3)
"""Sharding stages that are searched where neither they nor a trainer are given."""


def trainer(name: str) -> Trainer:
    """The trainer of a name; UserError lists those there are."""
    if name not in TRAINERS:
        raise UserError(f"--for {name}: there are no settings to restrict the search to; give {', '.join(TRAINERS)}")
    return TRAINERS[name]


def usual_zero(name: str | None) -> tuple[int, ...]:
    """The sharding stages that are searched by default, for a trainer or for any."""
    return USUAL if name is None else trainer(name).usual


def restricted(space: Space, name: str) -> Space:
    """The layouts of a space that a trainer runs; UserError for an option that leaves it none."""
    takes = trainer(name)
    chosen: dict[str, Any] = {}
    for field in ("zero", "schedule", "context", "expert", "expert_tensor", "offload_activations"):
        allowed, given = getattr(takes, field), getattr(space, field)
        if allowed is None:
            continue
        chosen[field] = tuple(each for each in given if each in allowed) if given else allowed
        if not chosen[field]:
            option = {"schedule": "schedules"}.get(field, field).replace("_", "-")
            raise UserError(
                f"--for {name}: takes {field} {', '.join(map(str, allowed))}, not {', '.join(map(str, given))}; "
                f"change --{option} or leave it out"
            )
    return replace(space, zero_pipelined=takes.pipelined, **chosen)
