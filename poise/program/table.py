"""A timed Program as CSV: a row for each task."""

from __future__ import annotations

import csv
import io
from fractions import Fraction

from poise.program.timed import Timed
from poise.program.words import write_argument

HEAD = ("rank", "lane", "slot", "kind", "argument", "reads", "writes", "start", "end")


def write_csv(timed: Timed, unit: Fraction = Fraction(1)) -> str:
    """The table, lane after lane in the order of the Program; times in units of `unit`."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEAD)
    per = float(timed.scale * unit)
    first = {lane: timed.index.first[place] for place, lane in enumerate(timed.index.lanes)}
    for lane, task, number, start, end in timed.rows():
        argument = "" if task.arg is None else write_argument(task.arg)
        slot = number - first[lane]
        writer.writerow(
            (*lane, slot, task.kind, argument, " ".join(task.reads), " ".join(task.writes), start / per, end / per)
        )
    return file.getvalue()
