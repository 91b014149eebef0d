"""A Program with its proof and its times, as figures, as rows of tables and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from poise.program.critical import Step, Stretch, stretches
from poise.program.timed import Timed
from poise.report.wording import counted

if TYPE_CHECKING:
    from poise.program import Program, Proof

LANES = ("rank", "lane", "tasks", "busy", "idle", "first start", "last end")
PATH = ("from", "to", "rank", "lane", "tasks", "which")
MEMORY = ("rank", "tier", "at most in this run", "at most for all durations")


@dataclass(frozen=True, slots=True)
class Shown:
    """A Program, proven and timed; times are shown in units of the largest forward, `unit`."""

    program: Program
    proof: Proof
    timed: Timed
    path: Sequence[Step]
    unit: Fraction
    untimed: Sequence[str]

    def as_dict(self) -> dict[str, Any]:
        """The figures."""
        return {
            "name": self.program.name,
            "ranks": self.program.ranks,
            "tasks": self.proof.tasks,
            "kinds": dict(sorted(Counter(task.kind for task in self.program.tasks()).items())),
            "messages": self.proof.messages,
            "collectives": self.proof.collectives,
            "accepts": sorted(self.program.accepts),
            "makespan": self.shown(self.timed.makespan),
            "untimed": list(self.untimed),
            "lanes": [
                {
                    "rank": each.lane.rank, "lane": each.lane.name, "tasks": each.tasks, "busy": self.shown(each.busy),
                    "idle": self.shown(each.idle), "first": self.shown(each.first), "last": self.shown(each.last),
                }
                for each in self.timed.lanes
            ],
            "memory": [
                {"rank": rank, "tier": tier, "peak": float(held.peak[0]), "proven": self.proof.peak_memory[rank, tier]}
                for (rank, tier), held in sorted(self.timed.held.items())
            ],
            "critical_path": [
                dict(zip(("start", "end", "rank", "lane", "tasks", "which"), row, strict=True)) for row in self.steps()
            ],
        }  # fmt: skip

    def shown(self, time: Fraction) -> float:
        """A time in the unit in which it is shown."""
        return float(time / self.unit)

    def steps(self) -> Iterator[tuple[float, float, int, str, int, str]]:
        """The critical path: what takes time of it."""
        for each in stretches(self.timed, self.path):
            if each.wait:
                yield (*self._between(each.start - each.wait, each.start), *each.lane, 0, self._wait(each))
            if each.end > each.start:
                yield (*self._between(each.start, each.end), *each.lane, each.tasks, self._which(each))

    def _between(self, start: int, end: int) -> tuple[float, float]:
        return self.shown(self.timed.units(start)), self.shown(self.timed.units(end))

    def _wait(self, each: Stretch) -> str:
        task = self.timed.index.tasks[each.first]
        return f"message {task.writes[0].rpartition('@')[0]}" if task.kind == "recv" and task.writes else "waits"

    def _which(self, each: Stretch) -> str:
        tasks = self.timed.index.tasks
        one, two = str(tasks[each.first]), str(tasks[each.last])
        return one if each.tasks == 1 else f"{one} to {two}"


def proven(name: str, program: Program, proof: Proof) -> str:
    """What was proven, in words."""
    parts = [
        counted(program.ranks, "rank"), counted(len(program.rows), "lane"), counted(proof.tasks, "task"),
        counted(proof.messages, "message"), counted(proof.collectives, "collective"),
    ]  # fmt: skip
    accepts = f" It accepts {', '.join(sorted(program.accepts))}." if program.accepts else ""
    return (
        f"{name}: proven. {', '.join(parts)}: messages and collectives match in order, nothing deadlocks whether sends "
        f"wait or not, and every update gets exactly the gradient that is demanded.{accepts}"
    )


def lane_rows(shown: Shown) -> list[tuple[str, ...]]:
    """The time of the lanes that have any."""
    return [
        (
            str(each.lane.rank), each.lane.name, str(each.tasks),
            *(f"{shown.shown(time):.6g}" for time in (each.busy, each.idle, each.first, each.last)),
        )
        for each in shown.timed.lanes
        if each.busy
    ]  # fmt: skip


def memory_rows(shown: Shown) -> list[tuple[str, ...]]:
    """Peaks by rank and tier."""
    return [
        (str(rank), tier, f"{float(held.peak[0]):g}", f"{shown.proof.peak_memory[rank, tier]:g}")
        for (rank, tier), held in sorted(shown.timed.held.items())
    ]


def path_rows(shown: Shown) -> list[tuple[str, ...]]:
    """The critical path as text."""
    return [
        (f"{start:.6g}", f"{end:.6g}", str(rank), lane, str(tasks or ""), which)
        for start, end, rank, lane, tasks, which in shown.steps()
    ]
