"""The rules of the kinds of tasks: what each makes of the contents that it reads. A pass adds its own kinds here.

A rule gets the Program, the task and the contents of what it reads, in order, and gives those of what it writes. The
rule of a collective gets the tasks and contents of all members at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from poise.core.errors import ProgramError
from poise.program.content import Content, difference, summed
from poise.program.program import Program
from poise.program.task import Task, stem

Contents = list[Content]
Rule = Callable[[Program, Task, Contents], Sequence[Content]]
Joint = Callable[[Program, list[Task], list[Contents]], Sequence[Sequence[Content]]]


class Kinds(NamedTuple):
    """The rules by the names of kinds."""

    alone: dict[str, Rule]
    joint: dict[str, Joint]


KINDS = Kinds({}, {})


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Make a function the rule of tasks that run alone."""

    def note(function: Rule) -> Rule:
        KINDS.alone.update(dict.fromkeys(names, function))
        return function

    return note


def joint_rule(*names: str) -> Callable[[Joint], Joint]:
    """Make a function the rule of collectives."""

    def note(function: Joint) -> Joint:
        KINDS.joint.update(dict.fromkeys(names, function))
        return function

    return note


class Fault(ProgramError):
    """A rule is broken; the place of the task is put before the text."""


@rule("send", "copy", "free", "wait")
def move(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """send, copy (to another tier), free (its first value, behind the others), wait: what is read is written, in order.

    A task that writes more than it reads writes signs that it has ended, which contain nothing. What a forward kept is
    that of the stage and sample in the argument, if there are any.
    """
    atom = reads[0].only if reads and task.kind in ("copy", "free") and isinstance(task.arg, tuple) else None
    if atom is not None and atom[0] == "ctx" and atom[1:3] != task.arg[-2:]:
        raise Fault(f"has the argument {task.arg!r} but reads what stage {atom[1]} kept of sample {atom[2]}")
    return [*reads, *[Content({})] * len(task.writes)][: len(task.writes)]


@rule("scale")
def scale(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """Multiply by the factor `arg` (numerator, denominator)."""
    factor = Fraction(*task.arg) if isinstance(task.arg, tuple) else Fraction(str(task.arg))
    return [each.times(factor) for each in reads]


@rule("add")
def add(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """Add all that is read."""
    return [summed(reads)]


@rule("update")
def update(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """The optimizer: reads weights and their gradient, writes the next version of the weights.

    The gradient must contain what the Program demands of it, no more and no less.
    """
    weights, gradient = reads[:2]
    atom = weights.only
    if atom is None or atom[0] != "w":
        raise Fault("does not read weights first; give weights and then their gradient")
    name = str(atom[1])
    keys = (f"{name}#{atom[2]}@{task.rank}", f"{name}#{atom[2]}", name)
    wanted = next((program.demands[key] for key in keys if key in program.demands), None)
    if wanted is None:
        raise Fault(f"updates {name}, of which no gradient is demanded; add it to the demands")
    fault = difference(gradient.atoms, wanted)
    if fault:
        raise Fault(f"would update {name} with a wrong gradient: {fault}")
    if gradient.part != weights.part:
        raise Fault(f"has part {gradient.part} of the gradient and part {weights.part} of {name}; scatter it alike")
    return [Content({("w", name, int(str(atom[2])) + 1): 1}, weights.part)]


@joint_rule("all_reduce")
def all_reduce(program: Program, tasks: list[Task], reads: list[Contents]) -> Sequence[Sequence[Content]]:
    """Every member gets the sum over all members, of each value in order."""
    totals = [summed(each) for each in zip(*reads, strict=True)]
    return [totals for _ in tasks]


@joint_rule("broadcast")
def broadcast(program: Program, tasks: list[Task], reads: list[Contents]) -> Sequence[Sequence[Content]]:
    """Every member gets what the one member that reads has."""
    given = [each for each in reads if each]
    if len(given) != 1:
        raise Fault(f"is given values by {len(given)} members; one of them sends, the others get")
    return [given[0] for _ in tasks]


@joint_rule("reduce_scatter")
def reduce_scatter(program: Program, tasks: list[Task], reads: list[Contents]) -> Sequence[Sequence[Content]]:
    """Every member gets its part of the sum over all members."""
    totals = [summed(each) for each in zip(*reads, strict=True)]
    return [[total._replace(part=(at, len(tasks))) for total in totals] for at in range(len(tasks))]


@joint_rule("all_gather")
def all_gather(program: Program, tasks: list[Task], reads: list[Contents]) -> Sequence[Sequence[Content]]:
    """Every member gets the whole of what each has a part of."""
    found = []
    for each in zip(*reads, strict=True):
        if [one.part for one in each] != [(at, len(tasks)) for at in range(len(tasks))]:
            raise Fault(
                f"gathers the parts {[one.part[0] for one in each]}; the members have part 0 to {len(tasks) - 1}"
            )
        if any(one.atoms != each[0].atoms for one in each):
            raise Fault("gathers parts of different values; gather those of one")
        found.append(each[0]._replace(part=(0, 1)))
    return [found for _ in tasks]


@joint_rule("barrier")
def barrier(program: Program, tasks: list[Task], reads: list[Contents]) -> Sequence[Sequence[Content]]:
    """All members wait for each other; what is written says that they have."""
    return [[Content({})] * len(task.writes) for task in tasks]


def parameter(gradient: str) -> str:
    """The parameter of an accumulated gradient: `w3` of `dw3#5@1`."""
    return stem(gradient)[1:]
