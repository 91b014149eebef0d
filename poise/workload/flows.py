"""aiFlows: workflows made of workflows; a part is a flow of its own that is used by name, once or round after round.

Josifoski et al. (arXiv 2308.01285). A flow is isolated and is reached by messages alone; an atomic one wraps a model, a
tool or a person, a composite one wraps flows: one after another, in a circle, or as a graph. Here the message is what a
flow's prompts begin with, so a composite flow is the graph that it unfolds to: what comes first in it waits for what
the part waits for, and what waits for the part waits for what comes last in it. A person is a tool with seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from poise.core.errors import ScenarioError
from poise.core.plugin import nearest
from poise.workload.draw import count
from poise.workload.workflow import Task

Tasks = Mapping[str, Task]

MOST = 1000
"""Tasks that a flow may unfold to."""


def unfolded(tasks: Tasks, flows: Mapping[str, Tasks], within: Sequence[str] = ()) -> dict[str, Task]:
    """Return the tasks without parts: `PART/TASK` for those of a part, `PART 2/TASK` for those of its second round.

    flows: what parts are, by the name in `Task.flow`; they may have parts themselves.  within: the flows around.
    A round begins with what the last answer of the round before was, if that is one request.
    ScenarioError names a part whose flow is unknown, or holds itself, or has a beginning that nothing is handed to.
    """
    found: dict[str, Task] = {}
    last: dict[str, list[str]] = {}
    for name, task in tasks.items():
        if not task.flow:
            found[name] = task
            continue
        inner = unfolded(_flow(name, task, flows, within), flows, (*within, task.flow))
        before, handed = list(task.after), task.begins_with
        for number in range(count(f"{name}: rounds", task.rounds)):
            label = name if task.rounds == 1 else f"{name} {number + 1}"
            found |= {f"{label}/{each}": _renamed(what, label, inner, before, handed) for each, what in inner.items()}
            before = [f"{label}/{each}" for each in _ends(inner)]
            handed = before[0] if len(before) == 1 and found[before[0]].kind == "request" else handed
            if len(found) > MOST:
                raise ScenarioError(f"{name} unfolds to more than {MOST} tasks; ask for fewer rounds")
        last[name] = before
    return {name: _joined(name, task, last, found) for name, task in found.items()}


def _flow(name: str, task: Task, flows: Mapping[str, Tasks], within: Sequence[str]) -> Tasks:
    if task.flow not in flows:
        raise ScenarioError(f"{name} is the flow {task.flow!r}, which is not there; {nearest(task.flow, flows)}")
    if task.flow in within:
        raise ScenarioError(f"{name}: the flow {task.flow} is part of itself; let one of its parts be something else")
    if task.each or task.count is not None or task.seconds is not None or task.prompt_tokens is not None:
        raise ScenarioError(f"{name} is a flow, whose tasks have their own lengths; keep only after and begins_with")
    return flows[task.flow]


def _renamed(task: Task, label: str, inner: Tasks, before: list[str], handed: str) -> Task:
    """A task of a part under its name there; the first ones wait for what the part waits for, and begin with that."""
    after = [f"{label}/{each}" for each in task.after]
    begins = f"{label}/{task.begins_with}" if task.begins_with in inner else task.begins_with
    first = not task.before
    return replace(
        task, after=before if first else after, each=f"{label}/{task.each}" if task.each else "",
        begins_with=(begins or handed) if first and task.kind == "request" else begins,
    )  # fmt: skip


def _ends(tasks: Tasks) -> list[str]:
    """The tasks that no other waits for."""
    waited = {each for task in tasks.values() for each in task.before}
    return [name for name in tasks if name not in waited]


def _joined(name: str, task: Task, last: Mapping[str, list[str]], found: Tasks) -> Task:
    """A task with the last ones of parts in place of the parts that it names."""
    after = [one for each in task.after for one in last.get(each, [each])] or task.after
    changed = {"each": task.each, "begins_with": task.begins_with}
    for field, given in changed.items():
        ends = last.get(given, [given])
        if len(ends) > 1 or (given in last and found[ends[0]].kind != "request" and field == "begins_with"):
            raise ScenarioError(f"{name}: {field} is the flow {given}, which does not end in one request; name a task")
        changed[field] = ends[0]
    return replace(task, after=after, each=changed["each"], begins_with=changed["begins_with"])
