"""AXLearn: a training run as a value that modifiers change, and rules that choose modifiers by the kind of device.

Lee et al. (arXiv 2507.05411). Modules know nothing of one another, so a change that concerns many of them is one
function over the tree of their configurations (`everywhere`). Here the tree is a Job with its Layout, or any frozen
dataclasses within one another; a rule is a pattern of device names with a modifier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from poise.core.errors import ScenarioError
from poise.cost.training.job import Job, Precision
from poise.cost.training.layout import CHEAP, Layout, Recompute
from poise.cost.training.step import predict


class Setup(NamedTuple):
    """What is trained, and how it is laid over devices."""

    job: Job
    layout: Layout


Modifier = Callable[[Setup], Setup]
"""Gives a changed setup and leaves the old one as it was."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """Degrees of parallelism; data ranks are what devices are left (`data=-1` and `fsdp=-1` of AXLearn).

    Without a pipeline a data rank takes its part of the batch at once, else one sequence after another.
    """

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    zero: int = 3

    def __call__(self, setup: Setup) -> Setup:
        """The setup on this mesh; ScenarioError where devices do not divide."""
        group = self.tensor * self.pipeline * self.context
        if setup.job.devices % group:
            raise ScenarioError(f"mesh of {group} ranks does not divide {setup.job.devices} devices; give a divisor")
        data = setup.job.devices // group
        layout = replace(
            setup.layout, tensor=self.tensor, pipeline=self.pipeline, context=self.context, zero=self.zero, data=data,
            micro_batch=max(1, setup.job.batch // data) if self.pipeline == 1 else 1,
        )  # fmt: skip
        return setup._replace(layout=layout)


@dataclass(frozen=True, slots=True)
class Remat:
    """What is computed again; `operations` are those of the recomputation of that name."""

    recompute: Recompute
    operations: tuple[str, ...] = CHEAP

    def __call__(self, setup: Setup) -> Setup:
        """The setup with it."""
        return setup._replace(layout=replace(setup.layout, recompute=self.recompute, operations=self.operations))


@dataclass(frozen=True, slots=True)
class Quantized:
    """The precision of the layers' products."""

    precision: Precision

    def __call__(self, setup: Setup) -> Setup:
        """The setup in it."""
        return setup._replace(job=replace(setup.job, precision=self.precision))


@dataclass(frozen=True, slots=True)
class Chain:
    """Modifiers after one another."""

    modifiers: tuple[Modifier, ...]

    def __call__(self, setup: Setup) -> Setup:
        """The setup after all of them."""
        for each in self.modifiers:
            setup = each(setup)
        return setup


@dataclass(frozen=True, slots=True)
class First:
    """The first of several modifiers whose setup leaves headroom in memory; the last one where none does."""

    modifiers: tuple[Modifier, ...]

    def __call__(self, setup: Setup) -> Setup:
        """The setup after it."""
        for each in self.modifiers:
            found = each(setup)
            if predict(*found).safe(found.job):
                break
        return found


LIGHTEST = First(
    (Remat("none"), Remat("operations"), Remat("operations", (*CHEAP, "attention", "products")), Remat("full"))
)
"""The least recomputation that fits: nothing, cheap operations, half of the products with attention, all of a layer."""

RULES: tuple[tuple[str, Modifier], ...] = (
    ("TPU-*", Chain((Mesh(), LIGHTEST))),
    ("H[12]00*", Chain((Mesh(), LIGHTEST))),
    ("B[23]00*", Chain((Mesh(), Quantized("mxfp8"), LIGHTEST))),
    ("*", Chain((Mesh(tensor=8), LIGHTEST))),
)
"""All data ranks shard weights where links are fast; servers of older devices share each layer, too."""


def by_device(job: Job, rules: Sequence[tuple[str, Modifier]] = RULES) -> Setup:
    """The setup by the first rule whose pattern the device's name matches; ScenarioError where none does."""
    for pattern, modifier in rules:
        if fnmatchcase(job.device.name, pattern):
            return modifier(Setup(job, Layout(data=job.devices)))
    raise ScenarioError(f"device {job.device.name}: no rule's pattern matches it; add one with the pattern *")


def everywhere(tree: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """A tree of dataclasses, tuples, lists and mappings with every value of a kind changed, the inner ones first."""
    if isinstance(tree, dict):
        found: Any = {key: everywhere(each, kind, change) for key, each in tree.items()}
    elif isinstance(tree, tuple | list) and not hasattr(tree, "_fields"):
        found = type(tree)(everywhere(each, kind, change) for each in tree)
    elif hasattr(tree, "_fields"):
        found = tree._replace(**{name: everywhere(getattr(tree, name), kind, change) for name in tree._fields})
    elif is_dataclass(tree) and not isinstance(tree, type):
        names = [each.name for each in fields(tree) if each.init]
        found = replace(tree, **{name: everywhere(getattr(tree, name), kind, change) for name in names})
    else:
        found = tree
    return change(found) if isinstance(found, kind) else found


class Compared(NamedTuple):
    """Seconds of a step by the rules, of the best layout of a search, and the rules' utilisation."""

    rules: float
    best: float
    mfu: float


def compared(job: Job) -> Compared:
    """A job by the rules beside the best layout that `search` finds."""
    from poise.plan.training.search import search

    found = predict(*by_device(job))
    return Compared(found.seconds, search(job, count=1).best[0].seconds, found.mfu)
