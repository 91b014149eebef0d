"""All files of all trainers that can run a layout, and why the others cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from poise.core.errors import ScenarioError, ScheduleError
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.plan.training.exports.accelerate import accelerate
from poise.plan.training.exports.deepspeed import deepspeed
from poise.plan.training.exports.galvatron import galvatron
from poise.plan.training.exports.megatron import megatron
from poise.plan.training.exports.torchtitan import torchtitan

EXPORTS: dict[str, Callable[[Job, Layout], dict[str, str]]] = {
    "torchtitan": torchtitan,
    "megatron": megatron,
    "deepspeed": deepspeed,
    "accelerate": accelerate,
    "galvatron": galvatron,
}


@dataclass(frozen=True, slots=True)
class Exported:
    """files: texts by name.  refused: for each trainer that cannot run the layout, why."""

    files: dict[str, str]
    refused: dict[str, str]


def exported(job: Job, layout: Layout) -> Exported:
    """The files of every trainer that can run `layout`."""
    files: dict[str, str] = {}
    refused = {}
    for name, export in EXPORTS.items():
        try:
            files |= export(job, layout)
        except (ScenarioError, ScheduleError) as error:
            refused[name] = str(error)
    return Exported(files, refused)
