"""That every update gets the gradient that it must: contents followed through all tasks by the rules of kinds."""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.errors import ProgramError
from poise.program.content import Content
from poise.program.index import Index
from poise.program.kinds import KINDS, Fault
from poise.program.task import Task

_UNFIT = (ArithmeticError, LookupError, TypeError, ValueError)

Contents = dict[str, Content]


def contributions(index: Index, order: Sequence[int]) -> Contents:
    """What every value contains; ProgramError at the first task whose rule is broken, or without an update.

    order: the tasks as they can run, receives behind their sends, members of a collective next to each other.
    """
    program = index.program
    found: Contents = dict(program.given)
    met: dict[int, int] = {}
    for number in order:
        task = index.tasks[number]
        meeting = index.meeting[number]
        if task.kind == "recv":
            sent = index.tasks[index.source[number]]
            found.update(zip(task.writes, (found[name] for name in sent.reads), strict=True))
        elif meeting >= 0:
            met[meeting] = met.get(meeting, 0) + 1
            if met[meeting] == len(index.members[meeting]):
                _together(index, index.members[meeting], found)
        else:
            _alone(index, number, task.kind, found)
    _updated(index, found)
    return found


def _alone(index: Index, number: int, kind: str, found: Contents) -> None:
    task = index.tasks[number]
    rule = KINDS.alone.get(kind)
    if rule is None:
        known = ", ".join(sorted({*KINDS.alone, *KINDS.joint, "recv"}))
        raise ProgramError(
            f"{index.place(number)}: {kind} has no rule; give it one (`poise.program.rule`), or use {known}"
        )
    try:
        made = rule(index.program, task, [found[name] for name in task.reads])
    except Fault as fault:
        raise ProgramError(f"{index.place(number)} {fault}") from None
    except _UNFIT as error:
        raise _unfit(index, number) from error
    _write(index, number, made, found)


def _together(index: Index, members: list[int], found: Contents) -> None:
    tasks = [index.tasks[each] for each in members]
    rule = KINDS.joint.get(tasks[0].kind)
    if rule is None:
        raise ProgramError(f"{index.place(members[0])}: {tasks[0].kind} is no collective that has a rule")
    reads = [[found[name] for name in task.reads] for task in tasks]
    if tasks[0].kind not in ("broadcast", "barrier") and len({len(each) for each in reads}) > 1:
        raise ProgramError(f"{index.place(members[0])} reads other numbers of values on its ranks; give all as many")
    try:
        made = rule(index.program, tasks, reads)
    except Fault as fault:
        raise ProgramError(f"{index.place(members[0])} {fault}") from None
    except _UNFIT as error:
        raise _unfit(index, members[0]) from error
    for each, contents in zip(members, made, strict=True):
        _write(index, each, contents, found)


def _unfit(index: Index, number: int) -> ProgramError:
    """The error of a task whose argument or values its rule cannot take apart, as an edited file may have."""
    task = index.tasks[number]
    return ProgramError(
        f"{index.place(number)} does not fit its kind: it has the argument {task.arg!r} and reads "
        f"{' '.join(task.reads) or 'nothing'}; write it as other tasks of the kind {task.kind}"
    )


def _write(index: Index, number: int, made: Sequence[Content], found: Contents) -> None:
    writes = index.tasks[number].writes
    if len(made) != len(writes):
        raise ProgramError(f"{index.place(number)} writes {len(writes)} values; its kind makes {len(made)}")
    found.update(zip(writes, made, strict=True))


def _updated(index: Index, found: Contents) -> None:
    """Every rank that has a weight of which a gradient is demanded updates it, so often as that is demanded."""
    program = index.program
    updates = [(task.rank, *each) for task in index.tasks if task.kind == "update" for each in _weights(task, found)]
    done = {(rank, name) for rank, name, _ in updates}
    each = {f"{name}#{version}" for _, name, version in updates}
    each |= {f"{name}#{version}@{rank}" for rank, name, version in updates}
    missing = next((name for name in program.demands if "#" in name and name not in each), None)
    if missing is not None:
        raise ProgramError(f"{missing} is never updated, though its gradient is demanded; add an update behind that")
    for value, content in program.given.items():
        atom = content.only
        if atom is None or atom[0] != "w" or value.partition("@")[2] == "":
            continue
        name, rank = str(atom[1]), int(value.rsplit("@", 1)[1])
        if name in program.demands and (rank, name) not in done:
            raise ProgramError(f"{name} is never updated on rank {rank}; add an update behind its last gradient")


def _weights(task: Task, found: Contents) -> list[tuple[str, int]]:
    """Name and version of the weights that an update reads."""
    atoms = (found[name].only for name in task.reads[:1])
    return [(str(atom[1]), int(str(atom[2]))) for atom in atoms if atom is not None and atom[0] == "w"]
