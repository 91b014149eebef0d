"""`poise train schedule`, `schedules` and `check` once their options are read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from poise.core.errors import ScheduleError

if TYPE_CHECKING:
    from poise.pipeline import Costs, Proof, Schedule, Timing

HEADERS = ("schedule", "makespan", "bubble", "of makespan", "span bubble", "of span", "peak memory", "made s")


@dataclass(frozen=True, slots=True)
class Wish:
    """The options of `poise train schedule` and `schedules`; numbers are texts, to be taken exactly."""

    stages: int
    microbatches: int
    chunks: int | None
    f: str
    b: str
    w: str
    comm: str
    memory_limit: str | None
    json: str | None

    @property
    def costs(self) -> Costs:
        """The durations that were given."""
        from poise.pipeline import Costs

        return Costs.of(*(_numbers(each) for each in (self.f, self.b, self.w, self.comm)))

    @property
    def limit(self) -> Fraction | None:
        """The most activations that a rank may hold."""
        return None if self.memory_limit is None else _limit(self.memory_limit)


@dataclass(frozen=True, slots=True)
class Made:
    """A schedule, made, proven and timed."""

    schedule: Schedule
    proof: Proof
    timing: Timing
    made_s: float
    checked_s: float

    def as_dict(self) -> dict[str, Any]:
        """The figures; times in units of the largest full-stage forward."""
        timing, unit = self.timing, self.timing.largest_f
        return {
            "name": self.schedule.name,
            "stages": len(self.schedule.ranks),
            "microbatches": self.schedule.microbatches,
            "chunks": self.schedule.stages // len(self.schedule.ranks),
            "makespan": float(timing.makespan / unit),
            "bubble_global": float(timing.bubble_global / unit),
            "bubble_global_fraction": float(timing.bubble_global_fraction),
            "bubble_span": float(timing.bubble_span / unit),
            "bubble_span_fraction": float(timing.bubble_span_fraction),
            "busy": [float(each / unit) for each in timing.busy],
            "peak_memory": [float(each) for each in self.proof.peak_memory],
            "operations": self.proof.operations,
            "messages": self.proof.messages,
            "made_s": self.made_s,
            "checked_s": self.checked_s,
        }


def make_schedule(name: str, wish: Wish, csv: Path | None, communications: bool, timeline: Path | None) -> None:
    """Make one schedule, prove and time it, print it and write what was asked for."""
    from poise.pipeline.csv import write_csv
    from poise.pipeline.perfetto import timeline as trace

    _writable(wish.json, csv, timeline)
    made = _make(name, wish)
    if csv is not None:
        _write(csv, write_csv(made.schedule, communications=communications).encode())
    if timeline is not None:
        _write(timeline, trace(made.timing))
    told = made.as_dict()
    _tell(told, wish.json)
    if wish.json != "-":
        _table(f"{name}, times in units of the largest F", [told])
        print("peak memory by rank:", " ".join(f"{each:g}" for each in told["peak_memory"]))


def compare_schedules(wish: Wish) -> None:
    """All schedules that can be made of the input, by makespan; why the others cannot is said."""
    from poise.pipeline import names
    from poise.pipeline.find import takes

    _writable(wish.json)
    wish.costs.at(wish.stages, wish.stages, wish.microbatches)
    plain = replace(wish, chunks=None)
    found, refused = [], {}
    for name in names():
        try:
            found.append(_make(name, wish if "chunks" in takes(name) else plain).as_dict())
        except ScheduleError as error:
            refused[name] = str(error)
    found.sort(key=lambda told: (told["makespan"], max(told["peak_memory"])))
    _tell({"schedules": found, "refused": refused}, wish.json)
    if wish.json != "-":
        title = f"{wish.stages} stages, {wish.microbatches} microbatches, times in units of the largest F"
        _table(title, found)
        print("\n".join(f"- not {name}: {why}" for name, why in refused.items()))
    if not found:
        raise ScheduleError("no schedule can be made of this; why is above")


def check_schedule(file: Path, memory_limit: str | None, json: str | None) -> None:
    """Prove the schedule in a file, or raise with its fault."""
    from poise.pipeline import check
    from poise.pipeline.csv import read_csv

    _writable(json)
    schedule = read_csv(file)
    try:
        proof = check(schedule, memory_limit=None if memory_limit is None else _limit(memory_limit))
    except ScheduleError as error:
        raise ScheduleError(f"{file}: {error}") from None
    told = {
        "ranks": len(schedule.ranks),
        "stages": schedule.stages,
        "microbatches": schedule.microbatches,
        "communications": schedule.communicates,
        "operations": proof.operations,
        "messages": proof.messages,
        "peak_memory": [float(each) for each in proof.peak_memory],
    }
    _tell(told, json)
    if json != "-":
        matched = "messages match in order" if schedule.communicates else "messages follow from the operations"
        print(
            f"{file}: proven. {schedule.stages} stages on {len(schedule.ranks)} ranks, {schedule.microbatches} "
            f"microbatches: every one passes every stage once each way, nothing deadlocks, {matched}."
        )
        print("peak memory by rank:", " ".join(f"{each:g}" for each in told["peak_memory"]))  # type: ignore[attr-defined]


def _make(name: str, wish: Wish) -> Made:
    from poise.pipeline import check, make, time

    costs = wish.costs
    began = perf_counter()
    more = {} if wish.chunks is None else {"chunks": wish.chunks}
    schedule = make(name, wish.stages, wish.microbatches, costs=costs, memory_limit=wish.limit, **more)
    made = perf_counter()
    proof = check(schedule, memory_limit=wish.limit)
    checked = perf_counter()
    return Made(schedule, proof, time(schedule, costs), made - began, checked - made)


def _numbers(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _limit(text: str) -> Fraction:
    try:
        limit = Fraction(text)
    except (ValueError, ZeroDivisionError):
        limit = Fraction(0)
    if limit <= 0:
        raise ScheduleError(f"--memory-limit {text!r}: give a number of full-stage microbatch activations, as in 8")
    return limit


def _writable(json: str | None, *files: Path | None) -> None:
    from poise.scenario.write import check_writable

    if json is not None and json != "-":
        check_writable(Path(json), "--json")
    for file, option in zip(files, ("--csv", "--timeline"), strict=False):
        if file is not None:
            check_writable(file, option)


def _write(path: Path, content: bytes) -> None:
    from poise.report.files import replacing

    with replacing(path) as file:
        file.write(content)


def _tell(told: dict[str, Any], json: str | None) -> None:
    from poise.scenario.write import to_json, write_json

    if json == "-":
        sys.stdout.write(to_json(told))
    elif json is not None:
        write_json(told, Path(json))


def _table(title: str, told: Sequence[dict[str, Any]]) -> None:
    from poise.report.table import show

    show(title, HEADERS, [_row(each) for each in told], keys=1)


def _row(told: dict[str, Any]) -> Sequence[str]:
    return (
        told["name"], f"{told['makespan']:.6g}",
        f"{told['bubble_global']:.6g}", f"{100 * told['bubble_global_fraction']:.2f} %",
        f"{told['bubble_span']:.6g}", f"{100 * told['bubble_span_fraction']:.2f} %",
        f"{max(told['peak_memory']):g}", f"{told['made_s']:.3f}",
    )  # fmt: skip
