"""Whether all tasks of a Program can run: with sends that return at once, and with sends that wait for the receiver."""

from __future__ import annotations

from collections.abc import Iterable

from poise.core.errors import ProgramError
from poise.program.index import Index
from poise.program.walk import walk


def ordered(index: Index) -> list[int]:
    """All tasks in an order in which they can run; ProgramError with the tasks that wait for each other."""
    zeros = [0] * len(index.tasks)
    found = walk(index, zeros, zeros)
    _all_ran(index, found.at, False)
    _all_ran(index, walk(index, zeros, zeros, rendezvous=True).at, True)
    return found.order


def _all_ran(index: Index, at: list[int], rendezvous: bool) -> None:
    stopped = [task for lane, task in enumerate(at) if task < index.first[lane + 1]]
    if not stopped:
        return
    standing = {index.lane[task]: task for task in stopped}
    ring = _ring(index, standing, rendezvous)
    parts = [f"{index.place(one)} waits for {index.tasks[two]}" for one, two in ring]
    last = index.tasks[ring[-1][1]]
    when = " where sends wait for their receiver" if rendezvous else ""
    raise ProgramError(
        f"deadlock{when}: {', '.join(parts)}; move {last} before {index.tasks[ring[0][0]]} on rank {last.rank}, or put "
        "one of them on a lane of its own"
    )


def _ring(index: Index, standing: dict[int, int], rendezvous: bool) -> list[tuple[int, int]]:
    """Tasks at which lanes stand, each with the task that it waits for, up to where they close a ring."""
    task = next(iter(standing.values()))
    seen: list[tuple[int, int]] = []
    while task not in [one for one, _ in seen]:
        need = _waits_for(index, standing, task, rendezvous)
        seen.append((task, need))
        task = standing[index.lane[need]]
    return seen[[one for one, _ in seen].index(task) :]


def _waits_for(index: Index, standing: dict[int, int], task: int, rendezvous: bool) -> int:
    """One task that has not run and that `task` waits for."""
    open_needs = _open(index, standing, index.needs[task])
    if open_needs:
        return open_needs[0]
    partners = [each for each in index.members[index.meeting[task]] if each != task] if index.meeting[task] >= 0 else []
    if index.source[task] >= 0:
        partners.append(index.source[task])
    elif rendezvous and index.tasks[task].kind == "send":
        partners.append(index.source.index(task))
    for each in _open(index, standing, partners):
        if standing[index.lane[each]] != each or _open(index, standing, index.needs[each]):
            return each
    raise AssertionError(f"{index.place(task)} stands without a cause")


def _open(index: Index, standing: dict[int, int], tasks: Iterable[int]) -> list[int]:
    """Those that have not run."""
    return [each for each in tasks if each >= standing.get(index.lane[each], index.first[index.lane[each] + 1])]


def freed(index: Index) -> None:
    """ProgramError where a value may be read behind the task that frees it."""
    frees: dict[str, int] = {}
    for number, task in enumerate(index.tasks):
        if task.kind == "free" and task.reads and frees.setdefault(task.reads[0], number) != number:
            raise ProgramError(
                f"{index.place(number)} frees what {index.place(frees[task.reads[0]])} frees; remove one"
            )
    if not frees:
        return
    for number, task in enumerate(index.tasks):
        for name in task.reads:
            free = frees.get(name, number)
            before = index.lane[free] == index.lane[number] and number <= free
            if not before and number not in index.needs[free]:
                raise ProgramError(
                    f"{index.place(number)} reads {name}, which {index.place(free)} frees; move it before that, or "
                    "make the value anew"
                )
