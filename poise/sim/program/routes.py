"""Which links the transfers of a Program use, and with how many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from poise.core.errors import ProgramError
from poise.program import Task
from poise.program.index import Index
from poise.sim.links.wiring import Path, Wiring

COMPUTE = frozenset({"recv", "barrier"})
"""Kinds with a group that put nothing on links themselves."""

Flow = tuple[float, Path]
"""Bytes, and the links that they pass at once."""


def routes_of(index: Index, wiring: Wiring) -> dict[int, Sequence[Flow]]:
    """The flows that each task puts on links; tasks that put none are left out.

    send: its bytes from rank to rank.  copy: over the wiring's link for its lane; without bytes over none.
    all_to_all: a rank's bytes in equal parts to all others of the group.  Any other collective: a rank's bytes to the
    next one of the group (a ring); in a group of one rank to its copies in other pipelines (`Wiring.outside`).
    Computations put nothing on links: their work is FLOPs.  ProgramError for bytes that are negative, and for ranks or
    lanes that the wiring does not have.
    """
    if index.program.ranks > len(wiring.node):
        raise ProgramError(f"wiring: {len(wiring.node)} ranks for a Program of {index.program.ranks}; give as many")
    found: dict[int, Sequence[Flow]] = {}
    sent: dict[tuple[float, tuple[int, ...]], Sequence[Flow]] = {}
    for number, (kind, _, _, _, _, work, group, _) in enumerate(index.tasks):
        if not work or kind in COMPUTE or not (group or kind == "copy"):
            continue
        if kind != "send":
            flows: Sequence[Flow] = _flows(index, number, wiring)
        elif (work, group) in sent:
            flows = sent[work, group]
        else:
            flows = sent[work, group] = _flows(index, number, wiring)
        if flows:
            found[number] = flows
    return found


def _flows(index: Index, number: int, wiring: Wiring) -> list[Flow]:
    """Those of one task."""
    task = index.tasks[number]
    if not (task.work > 0 and isfinite(task.work)):
        raise ProgramError(f"{index.place(number)} has {task.work:g} bytes; give 0 or more")
    if task.kind == "send":
        flows = [(task.work, wiring.path(task.group[0], task.group[1]))]
    elif task.group:
        flows = _collective(task, wiring)
    else:
        path = wiring.copy(task.rank, task.lane)
        if not path:
            raise ProgramError(
                f"{index.place(number)} has bytes, but the wiring has no link for the lane {task.lane}; give it with "
                "Wiring.with_copies"
            )
        flows = [(task.work, path)]
    return [flow for flow in flows if flow[1]]


def _collective(task: Task, wiring: Wiring) -> list[Flow]:
    group = task.group
    if len(group) == 1:
        return [(task.work, wiring.outside(task.rank))]
    if task.kind == "all_to_all":
        part = task.work / (len(group) - 1)
        return [(part, wiring.path(task.rank, each)) for each in group if each != task.rank]
    following = group[(group.index(task.rank) + 1) % len(group)]
    return [(task.work, wiring.path(task.rank, following))]
