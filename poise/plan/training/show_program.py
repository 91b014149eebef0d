"""`poise train show`: a training step as a Program, printed and written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from poise.core.errors import ProgramError
from poise.pipeline.program_time import TIMED, durations_of, ticks_by
from poise.plan.training.files import check_files, write_file
from poise.plan.training.program_source import device_limit, loaded, source, times_of
from poise.plan.training.shown import LANES, MEMORY, PATH, Shown, lane_rows, memory_rows, path_rows, proven
from poise.program.critical import critical_path
from poise.program.timed import timed

if TYPE_CHECKING:
    from poise.plan.training.schedule_options import ShowOptions

_MOST = 40
"""Rows of a table in the terminal."""


def show_program(options: ShowOptions) -> None:
    """Read or make the Program, prove and time it, print it and write what was asked for."""
    from poise.plan.training.program_page import page
    from poise.program.perfetto import timeline
    from poise.program.table import write_csv
    from poise.program.text import write_program
    from poise.scenario.write import put_json

    check_files(
        options.json,
        {"--text": options.text, "--perfetto": options.perfetto, "--page": options.page, "--csv": options.csv},
    )
    shown = _shown(options)
    if options.text is not None:
        write_file(options.text, write_program(shown.program).encode())
    if options.perfetto is not None:
        write_file(options.perfetto, timeline(shown.timed))
    if options.page is not None:
        write_file(options.page, page(shown).encode())
    if options.csv is not None:
        write_file(options.csv, write_csv(shown.timed, shown.unit).encode())
    put_json(shown.as_dict(), options.json)
    if options.json != "-":
        _print(options.source, shown)


def check_program(file: Path, memory_limit: str | None, json: str | None) -> None:
    """Prove the Program in a file, or raise an error with its fault."""
    from poise.scenario.write import put_json

    program = loaded(file)
    limit = None if memory_limit is None else device_limit(memory_limit)
    try:
        proof = program.prove(limit)
    except ProgramError as error:
        raise ProgramError(f"{file}: {error}") from None
    peaks = [{"rank": rank, "tier": tier, "proven": most} for (rank, tier), most in sorted(proof.peak_memory.items())]
    counts = {"tasks": proof.tasks, "messages": proof.messages, "collectives": proof.collectives}
    put_json({"ranks": program.ranks, **counts, "memory": peaks}, json)
    if json != "-":
        print(proven(str(file), program, proof))
        print("most memory:", "; ".join(f"rank {e['rank']} {e['tier']} {e['proven']:g}" for e in peaks) or "no sizes")


def _shown(options: ShowOptions) -> Shown:
    times = times_of(options.times)
    program, options = source(options)
    limit = None if options.memory_limit is None else device_limit(options.memory_limit)
    place = f"{options.source}: " if Path(options.source).is_file() else ""
    try:
        proof = program.prove(limit)
        durations = durations_of(program, options.costs)
        found = timed(program, *ticks_by(program, durations, times))
    except ProgramError as error:
        raise ProgramError(f"{place}{error}") from None
    own = sorted(program.kinds - TIMED - times.keys())
    ticks = dict.fromkeys(own, 0)
    for row in found.rows():
        if row.task.kind in ticks:
            ticks[row.task.kind] += row.end - row.start
    unit = durations.largest_f
    return Shown(program, proof, found, critical_path(found), unit, [kind for kind in own if not ticks[kind]])


def _print(name: str, shown: Shown) -> None:
    from poise.report.table import show

    print(proven(name, shown.program, shown.proof))
    print(f"makespan {shown.shown(shown.timed.makespan):.6g}, in units of the largest F")
    if shown.untimed:
        print(f"without a time: {', '.join(shown.untimed)}; --time {shown.untimed[0]}=0.5 gives one to each of a kind")
    rows = lane_rows(shown)
    show(f"Lanes whose tasks take time: {len(rows)} of {len(shown.program.rows)}", LANES, rows[:_MOST], keys=2)
    tiers = memory_rows(shown)
    if tiers:
        show("Memory", MEMORY, tiers[:_MOST], keys=2)
    steps = path_rows(shown)
    kept = [*steps[: _MOST // 2], *steps[max(_MOST // 2, len(steps) - _MOST // 2) :]]
    left = len(steps) - len(kept)
    show(f"Critical path{f' without {left} steps in its middle' if left else ''}", PATH, kept, keys=2)
    if len(rows) > _MOST or len(tiers) > _MOST or left:
        print(f"the first {_MOST} rows of each; --json - has all")
