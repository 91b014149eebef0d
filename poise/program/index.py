"""A Program with its tasks numbered, lane after lane: what each waits for, and which of them meet."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from poise.core.errors import ProgramError
from poise.program.task import Task, base, rank_of

if TYPE_CHECKING:
    from poise.program.program import Program

MESSAGES = ("send", "recv")


class Index:
    """Numbers of tasks, lane after lane in the order of `lanes`.

    first: `first[k]` to `first[k + 1]` are the tasks of lane k.  lane: of each task.  needs: of each task those on
    other lanes whose results it reads.  source: the send of each receive, or −1.  meeting: of each member of a
    collective the number of the collective, or −1; members: the tasks of each.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lanes = list(program.rows)
        self.tasks: list[Task] = []
        self.first = [0]
        for row in program.rows.values():
            self.tasks += row
            self.first.append(len(self.tasks))
        self.lane = [lane for lane, (low, high) in enumerate(pairwise(self.first)) for _ in range(low, high)]
        self._tails = [f"@{lane[0]}" for lane in self.lanes]
        self._placed()
        self.writer = self._writers()
        self.needs = self._needs()
        self.source = [-1] * len(self.tasks)
        self.meeting = [-1] * len(self.tasks)
        self.members: list[list[int]] = []
        self._match()

    def place(self, index: int) -> str:
        """A task with its place, in words."""
        lane = self.lane[index]
        return f"{self.tasks[index]} ({self.lanes[lane]}, slot {index - self.first[lane]})"

    def _placed(self) -> None:
        for index, task in enumerate(self.tasks):
            lane = self.lanes[self.lane[index]]
            if task.rank != lane[0] or task.lane != lane[1]:
                raise ProgramError(
                    f"{self.place(index)} is of rank {task.rank}, lane {task.lane}; put it into that lane, or change it"
                )

    def _writers(self) -> dict[str, int]:
        """Who writes each value; nothing is written twice, or where it does not live."""
        found: dict[str, int] = {}
        for index, task in enumerate(self.tasks):
            for name in task.writes:
                if name in found:
                    raise ProgramError(
                        f"{self.place(index)} writes {name}, which {self.place(found[name])} writes too; a value is "
                        "written once: remove one, or write another version (#)"
                    )
                found[name] = index
        for name in self.program.given:
            if name in found:
                raise ProgramError(f"{self.place(found[name])} writes {name}, which is given; write another version")
        for name, index in found.items():
            if not name.endswith(self._tails[self.lane[index]]) and rank_of(name) != self.tasks[index].rank:
                raise ProgramError(f"{self.place(index)} writes {name}, which is on another rank; send it there")
        return found

    def _needs(self) -> list[tuple[int, ...]]:
        writer, given, lane_of, tails = self.writer, self.program.given, self.lane, self._tails
        found: list[tuple[int, ...]] = []
        for index, task in enumerate(self.tasks):
            lane = lane_of[index]
            tail = tails[lane]
            needs: tuple[int, ...] = ()
            for name in task.reads:
                made = writer.get(name, -1)
                if made < 0:
                    if name not in given:
                        raise ProgramError(
                            f"{self.place(index)} reads {name}, which no task writes; {self._cure(name)}"
                        )
                elif lane_of[made] != lane or made >= index:
                    needs += (made,)
                if not name.endswith(tail) and rank_of(name) != task.rank:
                    raise ProgramError(f"{self.place(index)} reads {name}, which is on another rank; send it first")
            found.append(needs)
        return found

    def _cure(self, name: str) -> str:
        own = base(name)
        there = next((made for value, made in self.writer.items() if base(value) == own), None)
        if there is None:
            return "add a task that does, or give the value"
        return f"{self.place(there)} makes it on rank {self.tasks[there].rank}: send it"

    def _match(self) -> None:
        """Messages of each pair of ranks, and collectives of each group, each in order."""
        sends: dict[tuple[int, ...], list[int]] = {}
        receives: dict[tuple[int, ...], list[int]] = {}
        joint: dict[tuple[str, tuple[int, ...]], dict[int, list[int]]] = {}
        for index, task in enumerate(self.tasks):
            group = task.group
            if task.kind in MESSAGES and len(group) != 2:
                raise ProgramError(
                    f"{self.place(index)} is a message of the group {list(group)}; give its sender and its receiver"
                )
            if not group:
                continue
            if task.kind == "send":
                sends.setdefault(group, []).append(index)
            elif task.kind == "recv":
                receives.setdefault(group, []).append(index)
            elif task.rank not in group:
                raise ProgramError(
                    f"{self.place(index)} is of the group {list(group)}, to which its rank does not belong"
                )
            else:
                joint.setdefault((task.lane, group), {}).setdefault(task.rank, []).append(index)
        for pair in sorted({*sends, *receives}):
            self._channel(pair, sends.get(pair, []), receives.get(pair, []))
        for (_, group), rows in joint.items():
            self._collectives(group, rows)

    def _channel(self, pair: tuple[int, ...], sent: list[int], received: list[int]) -> None:
        for number, (one, two) in enumerate(zip(sent, received, strict=False)):
            here, there = self.tasks[one], self.tasks[two]
            if (here.rank, there.rank) != pair:
                wrong = one if here.rank != pair[0] else two
                raise ProgramError(
                    f"{self.place(wrong)} is not on its end of the message {pair[0]} to {pair[1]}; move it"
                )
            if [base(name) for name in here.reads] != [base(name) for name in there.writes]:
                raise ProgramError(
                    f"ranks {pair[0]} and {pair[1]}: message {number} is sent by {self.place(one)} but received by "
                    f"{self.place(two)}; messages between two ranks match in order: receive on rank {pair[1]} in the "
                    f"order in which rank {pair[0]} sends"
                )
            if here.arg != there.arg:
                raise ProgramError(
                    f"ranks {pair[0]} and {pair[1]}: {self.place(one)} has the argument {here.arg!r} but "
                    f"{self.place(two)} has {there.arg!r}; give both ends of a message one argument"
                )
            self.source[two] = one
        if len(sent) != len(received):
            more = sent if len(sent) > len(received) else received
            missing = "receive" if more is sent else "send"
            at = self.place(more[min(len(sent), len(received))])
            raise ProgramError(f"ranks {pair[0]} and {pair[1]}: {at} has no {missing}; add it on the other rank")
        for row in (sent, received):
            if len({self.lane[index] for index in row}) > 1:
                other = next(index for index in row if self.lane[index] != self.lane[row[0]])
                raise ProgramError(
                    f"{self.place(other)} is on another lane than {self.place(row[0])}; messages from rank {pair[0]} "
                    f"to rank {pair[1]} have no order then: put them on one lane"
                )

    def _collectives(self, group: tuple[int, ...], rows: dict[int, list[int]]) -> None:
        most = max(len(row) for row in rows.values())
        for number in range(most):
            found = []
            for rank in group:
                row = rows.get(rank, [])
                if number >= len(row):
                    other = next(each[number] for each in rows.values() if len(each) > number)
                    raise ProgramError(
                        f"{self.place(other)} has no part on rank {rank}; all of {list(group)} must take part"
                    )
                found.append(row[number])
            for index in found[1:]:
                one, two = self.tasks[found[0]], self.tasks[index]
                if one.kind != two.kind or one.arg != two.arg:
                    raise ProgramError(
                        f"collective {number} of the group {list(group)} is {self.place(found[0])} but "
                        f"{self.place(index)}; collectives of a group match in order, so bring them into one order"
                    )
            for index in found:
                self.meeting[index] = len(self.members)
            self.members.append(found)
