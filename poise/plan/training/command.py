"""The commands `poise train schedule`, `schedules` and `check` after their options are parsed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from poise.core.errors import ScheduleError
from poise.plan.training.files import check_files, write_file
from poise.plan.training.named import named
from poise.plan.training.program_source import is_program
from poise.plan.training.schedule_options import limit_of, numbers
from poise.plan.training.show_program import check_program
from poise.report.wording import counted

if TYPE_CHECKING:
    from poise.pipeline import Proof, Schedule, Timing
    from poise.plan.training.schedule_options import PipelineOptions, ScheduleOptions, SchedulesOptions

HEADERS = (
    "schedule", "makespan", "bubble", "of makespan", "span bubble", "of span", "peak memory", "weights", "gathers",
    "training", "made s",
)  # fmt: skip


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
        from poise.pipeline.gathers import gathers

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
            "weights": _weights(self.schedule),
            "gathers": [float(each) for each in gathers(self.schedule)],
            "training": _training(self.schedule),
            "operations": self.proof.operations,
            "messages": self.proof.messages,
            "made_s": self.made_s,
            "checked_s": self.checked_s,
            **self._certificate(),
        }

    def _certificate(self) -> dict[str, Any]:
        """What was proven of it besides that it runs, in the same units."""
        from poise.pipeline.certified import Certified

        found, unit = self.schedule, self.timing.largest_f
        if not isinstance(found, Certified):
            return {}
        figures = {"value": float(found.value / unit), "bound": float(found.bound / unit), "gap": float(found.gap)}
        return {"certificate": {"by": found.by, **figures, "optimal": found.optimal, "proof": found.proof}}


def make_schedule(options: ScheduleOptions) -> None:
    """Make one schedule, prove and time it, print it and write what was asked for."""
    from poise.pipeline.csv import write_csv
    from poise.pipeline.perfetto import timeline as trace
    from poise.scenario.write import put_json

    files = {"--csv": options.csv, "--timeline": options.timeline, "--page": options.page, "--out": options.out}
    check_files(options.json, files)
    made = _make(options.name, options, by=options.by, given=options.given)
    others = [_make(other, replace(options, chunks=None)) for other in numbers(options.beside) if other]
    if options.out is not None:
        write_file(options.out, _saved(made.schedule, options.out).encode())
    if options.csv is not None:
        write_file(options.csv, write_csv(made.schedule, communications=options.communications).encode())
    if options.timeline is not None:
        write_file(options.timeline, trace(made.timing))
    if options.page is not None:
        write_file(options.page, _page(options, [made, *others]).encode())
    fields = made.as_dict()
    put_json(fields, options.json)
    if options.json != "-":
        _table(f"{options.name}, times in units of the largest F", [fields, *(other.as_dict() for other in others)])
        print("peak memory by rank:", " ".join(f"{each:g}" for each in fields["peak_memory"]))
        if "certificate" in fields:
            print(_certified(fields["certificate"]))


def compare_schedules(options: SchedulesOptions) -> None:
    """Print all schedules that can be made of the input, by makespan, and why the others cannot."""
    from poise.pipeline import names
    from poise.pipeline.find import takes
    from poise.scenario.write import put_json

    check_files(options.json)
    options.costs.at(options.ranks, options.ranks, options.microbatches)
    found, refused = [], {}
    for name in names():
        try:
            known = takes(name)
            one = options if "chunks" in known else replace(options, chunks=None)
            found.append(_make(name, one, by=options.by if "by" in known else None).as_dict())
        except ScheduleError as error:
            refused[name] = str(error)
    found.sort(key=lambda fields: (fields["makespan"], max(fields["peak_memory"])))
    put_json({"schedules": found, "refused": refused}, options.json)
    if options.json != "-":
        title = f"{options.ranks} ranks, {options.microbatches} microbatches, times in units of the largest F"
        _table(title, found)
        print("\n".join(f"- not {name}: {why}" for name, why in refused.items()))
    if not found:
        raise ScheduleError("no schedule can be made of this; why is above")


def check_schedule(file: Path, memory_limit: str | None, json: str | None) -> None:
    """Prove the schedule in a file, or raise an error with its fault."""
    from poise.pipeline import check
    from poise.pipeline.text import read_file
    from poise.scenario.write import put_json

    check_files(json)
    if is_program(file):
        check_program(file, memory_limit, json)
        return
    schedule = read_file(file)
    try:
        proof = check(schedule, memory_limit=None if memory_limit is None else limit_of(memory_limit))
    except ScheduleError as error:
        raise ScheduleError(f"{file}: {error}") from None
    fields = {
        "ranks": len(schedule.ranks),
        "stages": schedule.stages,
        "microbatches": schedule.microbatches,
        "communications": schedule.communicates,
        "operations": proof.operations,
        "messages": proof.messages,
        "peak_memory": [float(each) for each in proof.peak_memory],
        "idle_ranks": list(proof.idle),
    }
    put_json(fields, json)
    if json != "-":
        matched = "messages match in order" if schedule.communicates else "messages follow from the operations"
        print(
            f"{file}: proven. {counted(schedule.stages, 'stage')} on {counted(len(schedule.ranks), 'rank')}, "
            f"{counted(schedule.microbatches, 'microbatch', 'es')}: every one passes "
            f"{'every stage' if schedule.paths is None else 'the stages on its path'} "
            f"once each way, nothing deadlocks, {matched}."
        )
        print("peak memory by rank:", " ".join(f"{each:g}" for each in fields["peak_memory"]))  # type: ignore[attr-defined]
        for rank in proof.idle:
            print(f"rank {rank} has no operations and idles for the whole step; give it a stage, or remove its line")


def _make(name: str, options: PipelineOptions, *, by: str | None = None, given: Sequence[str] = ()) -> Made:
    from poise.pipeline import check, time

    costs = options.costs
    began = perf_counter()
    schedule = named(name, options, costs, by=by, given=given)
    made = perf_counter()
    proof = check(schedule, memory_limit=options.limit)
    checked = perf_counter()
    return Made(schedule, proof, time(schedule, costs), made - began, checked - made)


def _weights(schedule: Schedule) -> float:
    """The most full-stage weights that a rank keeps: its stages, and versions of them that are still needed."""
    kept: dict[tuple[int, int], int] = {
        (rank, stage): 1 for stage, homes in enumerate(schedule.homes) for rank in homes
    }  # fmt: skip
    if schedule.updates not in ("flush", "latest"):
        home = {(op.stage, op.microbatch): rank for rank, row in enumerate(schedule.ranks) for op in row}
        for (stage, batch), version in schedule.versions.items():
            place = home[stage, batch], stage
            kept[place] = max(kept[place], version.newest - version.backward + 1)
    ranks = range(len(schedule.ranks))
    return float(max(sum(held for (rank, _), held in kept.items() if rank == each) for each in ranks) * schedule.chunk)


def _training(schedule: Schedule) -> str:
    """Whether gradients equal those of a single process, and why not."""
    if schedule.updates != "flush":
        return "stale weights"
    return "exact" if schedule.paths is None else "skips stages"


def _saved(schedule: Schedule, file: Path) -> str:
    from poise.pipeline.text import write_json, write_text

    if file.suffix not in (".json", ".txt"):
        raise ScheduleError(f"--out {file}: end the name in .json or .txt, or use --csv for PyTorch's form")
    return write_json(schedule) if file.suffix == ".json" else write_text(schedule)


def _certified(fields: dict[str, Any]) -> str:
    """The certificate in a sentence."""
    word = "makespan" if fields["by"] == "makespan" else "span bubble"
    if fields["optimal"]:
        return f"proven: no schedule of its placement has a smaller {word} (by {fields['proof']})"
    return f"not proven the best: the {word} {fields['value']:.6g} could at most come down to {fields['bound']:.6g}"


def _page(options: PipelineOptions, made: Sequence[Made]) -> str:
    from poise.plan.training.page import MOST, page

    bars = sum(each.proof.operations for each in made)
    if bars > MOST:
        raise ScheduleError(f"--page: {bars} operations are too many to draw; ask for fewer than {MOST}, or --timeline")
    title = f"{made[0].schedule.name}: {options.ranks} ranks, {options.microbatches} microbatches"
    return page(title, [each.timing for each in made], HEADERS, [_row(each.as_dict()) for each in made])


def _table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    from poise.report.table import show

    show(title, HEADERS, [_row(each) for each in rows], keys=1)


def _row(fields: dict[str, Any]) -> Sequence[str]:
    return (
        fields["name"], f"{fields['makespan']:.6g}",
        f"{fields['bubble_global']:.6g}", f"{100 * fields['bubble_global_fraction']:.2f} %",
        f"{fields['bubble_span']:.6g}", f"{100 * fields['bubble_span_fraction']:.2f} %",
        f"{max(fields['peak_memory']):g}", f"{fields['weights']:g}", f"{max(fields['gathers']):g}",
        fields["training"], f"{fields['made_s']:.3f}",
    )  # fmt: skip
