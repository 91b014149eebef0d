"""All files of all trainers that can run a layout, and why the others cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from poise.catalogue.architecture import Architecture, by_shape
from poise.core.errors import ScenarioError, ScheduleError, UserError
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.plan.training.exports.accelerate import accelerate, accelerate_code
from poise.plan.training.exports.deepspeed import deepspeed, deepspeed_code
from poise.plan.training.exports.galvatron import galvatron
from poise.plan.training.exports.megatron import megatron, megatron_code
from poise.plan.training.exports.torchtitan import torchtitan, torchtitan_main

About = Callable[[], Architecture]
"""Finds what a trainer must state of the model; UserError where that is not known."""

EXPORTS: dict[str, Callable[[Job, Layout, About], dict[str, str]]] = {
    "torchtitan": lambda job, layout, _: torchtitan(job, layout),
    "torchtitan-main": lambda job, layout, _: torchtitan_main(job, layout),
    "megatron": lambda job, layout, about: megatron(job, layout, about()),
    "deepspeed": lambda job, layout, _: deepspeed(job, layout),
    "accelerate": lambda job, layout, _: accelerate(job, layout),
    "galvatron": lambda job, layout, _: galvatron(job, layout),
}

CODE: dict[str, Callable[[Job, Layout, About], list[str]]] = {
    "megatron": lambda _, __, about: megatron_code(about()),
    "deepspeed": lambda _, layout, __: deepspeed_code(layout),
    "accelerate": lambda job, layout, _: accelerate_code(job, layout),
}
"""What a trainer's files cannot say and the program must."""


@dataclass(frozen=True, slots=True)
class Exported:
    """files: texts by name.  refused: for each trainer that cannot run the layout, why.

    code: for each trainer whose files cannot say all, what its program must do.
    """

    files: dict[str, str]
    refused: dict[str, str]
    code: dict[str, list[str]] = field(default_factory=dict)


def exported(job: Job, layout: Layout, about: About | None = None) -> Exported:
    """The files of every trainer that can run `layout`; by default the model's architecture is that of its shape."""
    about = about or partial(by_shape, job.model)
    files: dict[str, str] = {}
    refused, code = {}, {}
    for name, export in EXPORTS.items():
        try:
            files |= export(job, layout, about)
        except (ScenarioError, ScheduleError, UserError) as error:
            refused[name] = str(error)
            continue
        if name in CODE and (own := CODE[name](job, layout, about)):
            code[name] = own
    return Exported(files, refused, code)
