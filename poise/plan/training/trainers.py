"""The part of a search space that a trainer runs, so that every layout found has an export."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from poise.core.errors import UserError
from poise.cost.training import Job, Layout
from poise.cost.training.layout import ALTERNATE, BY_OPERATION
from poise.cost.training.schedules import FORMS, LIMITED
from poise.plan.training.exports import About
from poise.plan.training.exports.accelerate import check_accelerate
from poise.plan.training.exports.deepspeed import check_deepspeed
from poise.plan.training.exports.galvatron import SCHEDULES as GALVATRON
from poise.plan.training.exports.galvatron import check_galvatron
from poise.plan.training.exports.megatron import SCHEDULES as MEGATRON
from poise.plan.training.exports.megatron import check_megatron
from poise.plan.training.exports.megatron_model import check_model
from poise.plan.training.exports.torchtitan import SCHEDULES as TORCHTITAN
from poise.plan.training.exports.torchtitan import check_torchtitan
from poise.plan.training.space import Space

OWN = tuple(name for name, form in FORMS.items() if form.copies == 1 and name not in {*TORCHTITAN, *LIMITED, "v_auto"})
"""Schedules of the search that torchtitan runs from a CSV; those that are searched for each layout take too long."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """What a trainer takes; fields of `Space` that are not in `takes` are free.

    check: raises ScenarioError for a layout that its settings cannot state, where fields alone do not decide that.
    usual: sharding stages searched by default.  pipelined: those that it takes together with a pipeline.
    again: what the word `operations` of recomputation stands for.
    """

    check: Callable[[Job, Layout], None]
    usual: tuple[int, ...]
    takes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    pipelined: tuple[int, ...] = (0, 1, 2, 3)
    again: tuple[str, ...] = (BY_OPERATION,)


WHOLE = {"recompute": ("none", "full"), "parts": (1.0,)}
_KEPT = {"offload_activations": (0.0,)}
_DENSE = {"context": (1,), "expert": (1,), "expert_tensor": (1,)}
_TORCHTITAN = Trainer(
    check_torchtitan,
    (0, 2, 3),
    {
        "zero": (0, 2, 3),
        "schedule": (*TORCHTITAN, *OWN),
        "expert_tensor": (1,),
        "parts": (1.0,),
        **_KEPT,
        "recompute": ("none", "+".join(ALTERNATE), "full"),
    },
    again=("+".join(ALTERNATE),),
)

TRAINERS = {
    "torchtitan": _TORCHTITAN,
    "torchtitan-main": _TORCHTITAN,
    "megatron": Trainer(
        check_megatron, (1, 3), {"schedule": tuple(MEGATRON), **_KEPT}, (0, 1), again=("norm+mla", BY_OPERATION)
    ),
    "deepspeed": Trainer(
        check_deepspeed, (1, 3), {"tensor": (1,), "schedule": ("one_f_one_b",), **_DENSE, **WHOLE, **_KEPT}, (0, 1)
    ),
    "accelerate": Trainer(
        check_accelerate, (2, 3), {"zero": (2, 3), "tensor": (1,), "pipeline": (1,), **_DENSE, **WHOLE, **_KEPT}
    ),
    "galvatron": Trainer(
        check_galvatron,
        (2, 3),
        {"schedule": tuple(GALVATRON), **_DENSE, **_KEPT, "recompute": ("none", "full"), "offload": (False,)},
    ),
}
"""By the names of `exports.EXPORTS`."""

USUAL = (1, 3)
"""Sharding stages that are searched where neither they nor a trainer are given."""


def trainer(name: str) -> Trainer:
    """The trainer of a name; UserError lists those there are."""
    if name not in TRAINERS:
        raise UserError(f"--for {name}: there are no settings to restrict the search to; give {', '.join(TRAINERS)}")
    return TRAINERS[name]


def must_describe(job: Job, name: str, about: About) -> None:
    """Raise UserError where the trainer's settings must describe the model and cannot."""
    if name == "megatron":
        try:
            check_model(job, about())
        except UserError as error:
            raise UserError(f"--for {name}: {error}") from None


def usual_zero(name: str | None) -> tuple[int, ...]:
    """The sharding stages that are searched by default, for a trainer or for any."""
    return USUAL if name is None else trainer(name).usual


def restricted(space: Space, name: str) -> Space:
    """The layouts of a space that a trainer runs; UserError for an option that leaves it none."""
    found = trainer(name)
    words = [own for each in space.recompute for own in (found.again if each == BY_OPERATION else (each,))]
    space = replace(space, recompute=tuple(words))
    chosen: dict[str, Any] = {}
    for option, allowed in found.takes.items():
        given = getattr(space, option)
        if isinstance(given, bool):
            if given and True not in allowed:
                raise UserError(f"--for {name}: does not take --{option}; leave it out")
            continue
        chosen[option] = tuple(each for each in given if each in allowed) if given else allowed
        if not chosen[option]:
            flag = {"schedule": "schedules"}.get(option, option).replace("_", "-")
            raise UserError(
                f"--for {name}: takes {option} {', '.join(map(str, allowed))}, not {', '.join(map(str, given))}; "
                f"change --{flag} or leave it out"
            )
    return replace(space, zero_pipelined=found.pipelined, check=found.check, trainer=name, **chosen)
